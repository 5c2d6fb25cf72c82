"""The rows that all participants have: private set intersection over a group, before anything is trained."""

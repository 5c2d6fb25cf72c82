"""What a training costs and whether a machine has room for it: known from public sizes, before anything is sent."""

"""The scikit-learn face: `estimators` simulate a federation in this process; `federation` is one role of a real one."""

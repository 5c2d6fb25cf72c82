"""One role of a real federation: what its settings file says, what its files hold, whether it is ready to run."""

from mpfedxgb.federation.settings import RoleSettings

__all__ = ["RoleSettings"]

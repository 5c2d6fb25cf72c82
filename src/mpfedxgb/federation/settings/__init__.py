"""A role's settings file: read, checked section by section, and written as a commented template."""

from mpfedxgb.federation.settings.role import RoleSettings

__all__ = ["RoleSettings"]

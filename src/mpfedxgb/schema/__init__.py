"""Every training parameter and every settings key, declared once; `make generate` writes what people and tools read."""

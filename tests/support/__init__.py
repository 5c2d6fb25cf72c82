"""What several tests are made of: small problems, recorded runs, roles as threads and as processes."""

"""PostgreSQL with pgvector: an engine that vaults are published to, for many readers. The only psycopg."""

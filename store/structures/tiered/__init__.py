"""Metadata of tiered storage (config/tieredStoreMetadata.json, tiered_index_file)."""

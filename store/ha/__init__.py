"""Replicate the commit log by the HA protocol of brokers."""

"""Light queues, named by messages beside their own one."""

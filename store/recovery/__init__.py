"""Recovery: the valid end of the log, the cut behind it, and queues and index that agree with it. As plans."""

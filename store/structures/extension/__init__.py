"""Extensions of consume queues, in files of their own (enableConsumeQueueExt)."""

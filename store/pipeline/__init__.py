"""The pipeline: the same walk on Spark. The only package that imports pyspark."""

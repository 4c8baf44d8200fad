"""The tables and the rebuild on Spark. The only package that imports pyspark."""

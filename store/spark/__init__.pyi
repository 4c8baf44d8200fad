from store.spark.audit import audit_store as audit_store
from store.spark.query import export_lines as export_lines
from store.spark.query import run_query as run_query
from store.spark.query import write_export as write_export
from store.spark.rebuild import rebuild_on_spark as rebuild_on_spark
from store.spark.session import Spark as Spark
from store.spark.session import open_session as open_session
from store.spark.session import why_not_here as why_not_here

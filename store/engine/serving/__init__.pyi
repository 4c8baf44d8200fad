from store.engine.serving.client import StoreClient as StoreClient
from store.engine.serving.metrics import CopyCollector as CopyCollector
from store.engine.serving.metrics import MetricsServer as MetricsServer
from store.engine.serving.metrics import StoreCollector as StoreCollector
from store.engine.serving.place import has_socket as has_socket
from store.engine.serving.server import ControlServer as ControlServer

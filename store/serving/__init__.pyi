from store.serving.client import StoreClient as StoreClient
from store.serving.metrics import MetricsServer as MetricsServer
from store.serving.server import ControlServer as ControlServer

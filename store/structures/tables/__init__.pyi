from store.structures.tables.config_file import ConfigFile as ConfigFile
from store.structures.tables.config_file import read_config_files as read_config_files
from store.structures.tables.consumer_filters import ConsumerFilter as ConsumerFilter
from store.structures.tables.consumer_filters import read_consumer_filters as read_consumer_filters
from store.structures.tables.review import ConfigFinding as ConfigFinding
from store.structures.tables.review import review_loading as review_loading
from store.structures.tables.topics import refused_attributes as refused_attributes

from store.brokerconfig.config_file import ConfigFile as ConfigFile

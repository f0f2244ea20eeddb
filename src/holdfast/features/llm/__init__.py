"""Optional language models, over HTTP or through the connected agent. No feature requires one."""

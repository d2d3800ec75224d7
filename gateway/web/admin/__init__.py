"""Admin over HTTP: the door, the JSON API with its document, the pages. What is seen and done is in `gateway.admin`."""

"""What context entries are answered from: recorded and mocked answers, given objects, an API server; and who may ask."""

"""What context entries are answered from (mocks, recordings, given objects, an API server), and who may ask what."""

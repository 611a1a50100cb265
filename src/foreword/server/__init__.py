"""The built-in OpenAI-compatible server: a real block cache, a service model instead of a neural network.

``running`` starts it; ``app`` has the routes, ``engine`` the scheduler, ``ticker`` the one pacemaker of all streams.
"""

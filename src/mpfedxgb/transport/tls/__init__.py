"""The transport between organisations: one TLS socket per connection, mutual TLS 1.3 always."""

from mpfedxgb.transport.tls.transport import TlsTransport, connect, open_transport

__all__ = ["TlsTransport", "connect", "open_transport"]

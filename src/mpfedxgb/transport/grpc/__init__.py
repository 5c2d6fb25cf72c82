"""The transport between organisations: one gRPC stream per connection, mutual TLS 1.3 always."""

from mpfedxgb.transport.grpc.rendezvous import Endpoints
from mpfedxgb.transport.grpc.transport import GrpcTransport, connect, open_transport

__all__ = ["Endpoints", "GrpcTransport", "connect", "open_transport"]

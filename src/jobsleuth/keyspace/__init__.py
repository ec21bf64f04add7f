"""What Redis would say: keys and their values, with no word about queues."""

from jobsleuth.keyspace.asof import AsOf
from jobsleuth.keyspace.claims import Claims, QueueRef
from jobsleuth.keyspace.facts import EvidenceFacts, Remark
from jobsleuth.keyspace.projection import FieldKind, MessageField, Projected, projection_json
from jobsleuth.keyspace.view import Keyspace, Rows

__all__ = [
    "AsOf",
    "Claims",
    "EvidenceFacts",
    "FieldKind",
    "Keyspace",
    "MessageField",
    "Projected",
    "QueueRef",
    "Remark",
    "Rows",
    "projection_json",
]

"""Owns the types of the documents of the API. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import Any, Dict, List, Literal, Optional, Union
from typing_extensions import NotRequired, TypedDict

AccessOrigin = Literal["file", "state"]
"""Origin of a rule."""
Bottleneck = Literal["source storage", "source CPU", "network", "destination CPU", "destination storage", "limit"]
"""The stage that limits a transfer."""
Divide = Literal["auto", "always", "never"]
"""Whether a job is divided among several nodes."""
EntryKind = Literal["file", "directory", "symlink", "fifo", "socket", "char_device", "block_device", "other"]
"""The kind of an entry."""
FlowHopState = Literal["running", "waiting", "paused", "refused", "failed"]
"""State of a hop."""
JobState = Literal[
    "queued", "scheduled", "scanning", "running", "paused", "verifying", "complete", "partial", "failed", "cancelled"
]
"""The state of a job."""
LimitScopeName = Literal["node", "owner", "site", "job_default"]
"""Scope of a limit."""
Merge = Literal["by_site", "refuse", "newest"]
"""Where the contents of gathered sources go, and which entry stays if several have one name."""
NodeState = Literal["up", "draining", "drained", "joining", "lost", "unknown"]
"""State of a node."""
RateInput = Union[int, str]
"""A rate in a request."""
RateKind = Literal["node", "site", "channel"]
"""Subject of rates."""
Relay = Literal["never", "auto", "first"]
"""Whether a destination takes its data from another destination of the job that is complete."""
RightName = Literal["read", "write", "list", "delete"]
"""One right of a rule."""
RoleName = Literal["viewer", "operator", "admin"]
"""Role of a user. Each role includes the previous ones."""
SizeInput = Union[int, str]
"""A size in a request."""
Timestamp = str
"""A time of RFC 3339, in answers always in UTC."""
TokenKind = Literal["token", "log_in", "session"]
"""Origin of a token."""
WorkKindName = Literal["scan", "part", "assemble", "close"]
"""Kind of an item of work."""


class AccessView(TypedDict):
    """An access rule."""

    asker: NotRequired[Optional[str]]
    """Identity of the node that owns the job. The rule applies only while that node itself has the right here."""
    comment: str
    """Free text."""
    expired: bool
    """The rule has ended and allows nothing."""
    expires: NotRequired[Optional[Timestamp]]
    export: str
    """Name of the export; `*` is all exports."""
    id: NotRequired[Optional[str]]
    """Id of the rule; null for a rule of the file."""
    job: NotRequired[Optional[str]]
    """Id of the job of another node that the rule belongs to. The rule admits only requests for this job."""
    origin: AccessOrigin
    """Origin of the rule."""
    path: str
    """Path below the export; empty is the whole export."""
    rights: List[RightName]
    """Allowed rights."""
    site: NotRequired[Optional[str]]
    """Name of the site of the export; null is the queried node."""
    subject: str
    """Subject: an identity, or `user:NAME`."""


class AccountView(TypedDict):
    """The account of the caller."""

    current: NotRequired[Optional[str]]
    """Id of the token or session of the request; null on the Unix socket."""
    has_password: bool
    """The user has a password."""
    may_change: bool
    """The caller may change the password, and end sessions and tokens. A token with the role `viewer` may not."""
    role: RoleName
    """Role of the caller in this request."""
    tokens: List[TokenView]
    """Valid sessions, log-ins and tokens of the user."""
    user: str
    """Name of the user."""


class AttemptView(TypedDict):
    """One attempt of a job."""

    bytes: int
    """Bytes that the attempt moved."""
    bytes_again: NotRequired[int]
    """Bytes sent more than once, not counted in `bytes`."""
    ended: NotRequired[Optional[Timestamp]]
    files: int
    """Files that the attempt completed."""
    node: str
    """Node of the attempt."""
    number: int
    """Number of the attempt, from 1."""
    outcome: NotRequired[Optional[str]]
    """Outcome: a state, `backoff` or `restart`."""
    reason: NotRequired[Optional[Reason]]
    started: Timestamp
    """When the attempt started."""


class AuditView(TypedDict):
    """A line of the audit log."""

    action: str
    """Requested action."""
    actor: str
    """Name of the actor that made the request."""
    at: Timestamp
    """Time of the request."""
    object: str
    """Object of the action."""
    outcome: str
    """`ok`, or the code of the refusal."""
    remote: NotRequired[Optional[str]]
    """Address of the sender."""
    request: NotRequired[Optional[str]]
    """Id of the request."""
    role: NotRequired[Optional[str]]
    """Role of the actor."""
    seq: int
    """Number of the line. Later lines have greater numbers."""
    via: NotRequired[Optional[str]]
    """In a cluster, the node that proposed the change. That node vouches for the actor."""


class BufferChanged(TypedDict):
    """The result of a change."""

    files: int
    """Files with the wanted state now. A file counts at each node that has a part of it."""
    nodes: NotRequired[List[BufferNodeChanged]]
    """A row for each node of the cluster, this one first; none if the node is alone."""
    refused: int
    """Files that did not change, because others have reserved the room."""


class BufferFile(TypedDict):
    """A file in the buffer."""

    bytes: int
    """Size of the file."""
    bytes_held: int
    """Bytes of the file that the buffer can send."""
    dirty: NotRequired[bool]
    """Whether the buffer has the only copy of some of them."""
    path: str
    """Path below the export."""
    pinned: NotRequired[bool]
    """Whether a user has pinned the file."""
    reason: NotRequired[Optional[str]]
    """Why it failed the last time."""
    since: NotRequired[Optional[Timestamp]]
    tries: NotRequired[Optional[int]]
    """How often its way to the export failed."""
    until: NotRequired[Optional[Timestamp]]
    waiting: NotRequired[Optional[str]]
    """The state of a file that has arrived, and is not at its export yet: `ready`, `draining`, `later`, `held`, or `aside` until a user acts."""


class BufferFiles(TypedDict):
    """A page of the files in the buffer."""

    files: List[BufferFile]
    """The files, by the bytes of their paths."""
    next: NotRequired[Optional[str]]
    """Cursor of the next page; none at the end."""
    silent: NotRequired[List[str]]
    """Nodes of the cluster that did not answer. Their files are missing."""


class BufferNode(TypedDict):
    """The part of one node in the pool."""

    bytes_clean: int
    """Bytes that can be evicted."""
    bytes_dirty: int
    """Bytes of which the buffer has the only copy."""
    bytes_draining: NotRequired[int]
    """Bytes of those that go to slow storage now."""
    bytes_free: int
    """Bytes that hold nothing."""
    bytes_kept: int
    """Clean bytes that stay."""
    bytes_total: int
    """Bytes of all extents of its volumes."""
    files: int
    """Files with extents. A large file has some at several nodes."""
    files_aside: NotRequired[int]
    """Files of those that were put aside until a user acts."""
    files_troubled: NotRequired[int]
    """Files of those whose last way to the export failed."""
    files_waiting: NotRequired[int]
    """Files that have arrived, and are not at their export yet."""
    filled_bytes: int
    """Bytes written to flash."""
    hit_bytes: int
    """Bytes that transfers of any node got from this buffer."""
    missed_bytes: int
    """Bytes that this node read from the exports."""
    node: str
    """Name of the node."""
    oldest_dirty: NotRequired[Optional[Timestamp]]
    pooled_bytes: int
    """Bytes that its transfers got from the buffers of other nodes."""
    reason: NotRequired[Optional[str]]
    """Why the figures are missing, or why the node gives no extents to others now."""
    stalled: NotRequired[List[BufferStall]]
    """Its exports that take no data from the buffer."""
    state: str
    """`well`, `trouble` if a volume is not well, `none` without a buffer, or `silent`."""


class BufferNodeChanged(TypedDict):
    """The result of a change at one node."""

    files: int
    """Files that are as asked now."""
    node: str
    """Name of the node."""
    problem: NotRequired[Optional[str]]
    """Why the node has not answered; its files may be as before."""
    refused: int
    """Files that are not."""


class BufferStall(TypedDict):
    """An export that takes no data from the buffer."""

    export: str
    """Name of the export."""
    files: int
    """Files that drain to it."""
    since: Timestamp
    """When it took data last."""


class BufferView(TypedDict):
    """The transfer buffer of a node. Without a buffer all figures are 0."""

    bytes_clean: int
    """Bytes that can be evicted, because their source has them."""
    bytes_dirty: int
    """Bytes of which the buffer has the only copy."""
    bytes_draining: NotRequired[int]
    """Bytes of those that go to slow storage now."""
    bytes_filling: int
    """Bytes on their way to flash."""
    bytes_free: int
    """Bytes that hold nothing."""
    bytes_kept: NotRequired[int]
    """Clean bytes that stay: their files are pinned, or kept until a time."""
    bytes_total: int
    """Bytes of all extents of the volumes."""
    damaged_bytes: int
    """Bytes that were not as they had been written. None of them was sent."""
    drained_bytes: NotRequired[int]
    """Bytes that went on from flash to slow storage."""
    extent_bytes: int
    """Bytes of one extent."""
    files: int
    """Files with extents."""
    files_aside: NotRequired[int]
    """Files of those that were put aside until a user acts."""
    files_pinned: NotRequired[int]
    """Files that users have pinned."""
    files_troubled: NotRequired[int]
    """Files of those whose last way to the export failed."""
    files_waiting: NotRequired[int]
    """Files that have arrived, and are not at their export yet."""
    filled_bytes: int
    """Bytes written to flash."""
    hit_bytes: int
    """Bytes that transfers got from the buffer since the start of the node."""
    missed_bytes: int
    """Bytes that transfers read from the exports instead."""
    nodes: NotRequired[List[BufferNode]]
    """A row for each node of the cluster, this one first; none if the node is alone. Together they are the pool."""
    oldest: NotRequired[Optional[Timestamp]]
    oldest_dirty: NotRequired[Optional[Timestamp]]
    passed_bytes: int
    """Bytes that passed the buffer by, because it had no room or was slower."""
    pooled_bytes: NotRequired[int]
    """Bytes that transfers got from the buffers of other nodes of the cluster."""
    stalled: NotRequired[List[BufferStall]]
    """Exports to which files drain, and that take no data."""
    volumes: List[BufferVolume]
    """The volumes, in the order of the settings."""


class BufferVolume(TypedDict):
    """One volume of the buffer."""

    bytes_free: int
    """Bytes that hold nothing."""
    bytes_total: int
    """Bytes of its extents."""
    path: NotRequired[Optional[str]]
    """Its place; only admins see it."""
    reason: NotRequired[Optional[str]]
    """Why it is out or closed; only admins see why it is closed."""
    state: str
    """`well`, `slow`, `out`, or `closed` if the node could not open it."""


class CancelJob(TypedDict):
    """Reason for cancelling a job."""

    comment: NotRequired[Optional[str]]
    """Comment of the user."""


class ChangeJob(TypedDict):
    """Changes to a job. Missing fields stay as they are."""

    label: NotRequired[Optional[str]]
    """Free text that describes the job to people."""
    limit: NotRequired[Optional[RateInput]]
    priority: NotRequired[Optional[int]]
    """Jobs with a higher priority run first."""


class ChangeNode(TypedDict):
    """Changes to a node. Missing fields stay as they are."""

    draining: NotRequired[Optional[bool]]
    """Whether the node stops taking jobs. Its running jobs continue at other nodes."""
    voter: NotRequired[Optional[bool]]
    """Whether the node is preferred as a voter, if there are more nodes than votes."""


class ChannelView(TypedDict):
    """One network path of a running attempt."""

    bytes: NotRequired[int]
    """Bytes that passed over the path, with all overhead."""
    bytes_per_second: NotRequired[Optional[float]]
    """Rate of the last seconds, in bytes per second."""
    cuts: int
    """Streams that were closed because the path was dead."""
    name: str
    """Interface and addresses of the path."""
    number: int
    """Number of the path, counted from 0."""
    resent_bytes: NotRequired[int]
    """Bytes that this node retransmitted."""
    round_trip_seconds: float
    """Smoothed RTT in seconds."""
    streams: int
    """Number of attached streams."""


class CleanEntries(TypedDict):
    """Selects leftover temporary files to remove."""

    dry_run: NotRequired[bool]
    """Removes nothing; the answer lists the files that would be removed."""
    job: NotRequired[Optional[str]]
    """Id of an ended job of the caller. Removes only files that this job left at its destination, whatever their age."""
    older_than_seconds: NotRequired[int]
    """Files modified in these last seconds stay; default 3600."""
    place: NotRequired[str]
    """Place of a directory, as `SITE:/EXPORT/PATH`; empty with `job`."""


class Cleaned(TypedDict):
    """Result of a clean-up."""

    bytes: int
    """Bytes of those files."""
    failed: int
    """Directories that could not be scanned, and files that could not be removed."""
    failures: List[FailedPlace]
    """Some of those failures."""
    files: int
    """Temporary files that were removed, or would be in a dry run."""
    kept: List[KeptFiles]
    """Temporary files that stayed, by reason."""
    paths: List[Any]
    """Some of their paths, below the requested one."""


class ClusterNode(TypedDict):
    """A node of a cluster."""

    addresses: List[str]
    """Addresses of its data port."""
    behind: NotRequired[Optional[int]]
    """Number of commands that the node lacks, as far as the leader knows; null if unknown."""
    exports: List[str]
    """Exports that the node reaches."""
    identity: str
    """Identity that it proves."""
    joined: Timestamp
    """When the node joined."""
    leads: bool
    """Whether the node leads."""
    level: NotRequired[int]
    """The newest feature level that its program supports."""
    name: str
    """Name."""
    number: int
    """Number in the consensus."""
    problem: NotRequired[Optional[str]]
    """Why the disk under its state takes no changes, as last reported; null if it takes them."""
    resources: NodeResources
    """Resources of the node, as last reported."""
    running: int
    """Jobs that the node runs."""
    silent_ms: NotRequired[Optional[int]]
    """Milliseconds since the leader last received a report of the node; null if it never did."""
    state: NodeState
    """State of the node."""
    version: str
    """Version of its program."""
    votes: bool
    """Whether the node votes."""


class ClusterView(TypedDict):
    """A cluster as one of its nodes sees it. A single node is a cluster of one."""

    cluster: str
    """Id of the cluster."""
    leader: NotRequired[Optional[str]]
    """Name of the leader; null if no leader is known."""
    level: int
    """The feature level in use, which all nodes support. It never decreases."""
    nodes: List[ClusterNode]
    """All nodes, by number."""
    problem: NotRequired[Optional[str]]
    """Why no change is possible now, and the remedy; null if changes are possible."""
    reported_by: str
    """Name of the node that answered."""


class DeliveryView(TypedDict):
    """A delivery to a webhook."""

    at: Timestamp
    """When the last attempt ended, or when the delivery was created if there was none."""
    attempts: int
    """Number of attempts so far."""
    event: str
    """The state that the job entered."""
    id: int
    """Number of the delivery. Later deliveries have greater numbers."""
    job: str
    """Id of the job."""
    next_attempt: NotRequired[Optional[Timestamp]]
    status: str
    """HTTP status of the last attempt, or why there was none."""


class DestinationCount(TypedDict):
    """Destinations of a job with several, or sources of one that gathers."""

    complete: int
    """Number of complete ones."""
    gather: NotRequired[bool]
    """Whether they are the sources of a job that gathers."""
    total: int
    """Number of destinations or sources."""


class Distribution(TypedDict):
    """Distribution of a figure over the samples."""

    histogram: List[int]
    """Number of samples in each of ten equal steps from the minimum to the maximum."""
    max: float
    """Maximum."""
    median: float
    """Median: half of the samples are below."""
    min: float
    """Minimum."""
    quartile1: float
    """First quartile: a quarter of the samples is below."""
    quartile3: float
    """Third quartile: three quarters of the samples are below."""
    samples: int
    """Number of samples with the figure."""


class DropFromBuffer(TypedDict):
    """Files that leave the buffer."""

    place: str
    """Place of a file or directory of this node, as `here:/EXPORT/PATH`."""
    waiting: NotRequired[bool]
    """The files that have arrived, and are not at their export yet, are given up instead: they are lost. This needs the right to write."""


class EntryView(TypedDict):
    """An entry as its directory shows it."""

    kind: EntryKind
    """Kind of the entry."""
    mode: int
    """Permission, set-id and sticky bits."""
    modified: Timestamp
    """When its contents changed last."""
    name: Any
    """Name of the entry; bytes that are not UTF-8 come as `{"base64": "…"}`."""
    size: int
    """Length of its contents in bytes."""
    target: NotRequired[Any]
    """Target of a symbolic link."""


class EvennessView(TypedDict):
    """The first and the last node of a divided job, and how evenly the nodes shared it."""

    first: str
    """The node that was done first."""
    first_ended: Timestamp
    """When it was done."""
    interfaces: NotRequired[Optional[float]]
    """The same of the interfaces of the node whose interfaces were the least even; null if no node used several."""
    last: str
    """The node that was done last."""
    last_ended: Timestamp
    """When it was done."""
    nodes: float
    """The smallest share of a node divided by the largest; 1 means equal shares."""


class ExportRoom(TypedDict):
    """An export, the rights of the asker, and its free space."""

    bytes_free: NotRequired[Optional[int]]
    """Free bytes of the file system; null if unknown."""
    bytes_total: NotRequired[Optional[int]]
    """Size of the file system in bytes; null if unknown."""
    name: str
    """Name of the export."""
    read: bool
    """The asker may read some part of the export."""
    write: bool
    """The asker may write to some part of the export."""


class ExportView(TypedDict):
    """An export of the node."""

    bytes_free: NotRequired[Optional[int]]
    """Free bytes of its file system; null if unknown."""
    bytes_total: NotRequired[Optional[int]]
    """Size of its file system in bytes; null if unknown."""
    name: str
    """Name of the export."""


class FailedPlace(TypedDict):
    """A path at which something failed."""

    message: str
    """Error message."""
    path: Any
    """Path below the requested one."""


class FailureGroup(TypedDict):
    """Failed entries of one reason."""

    count: int
    """How many there are."""
    examples: List[str]
    """Some of their paths."""
    reason: Reason
    """Why these entries failed."""


class FlowHopView(TypedDict):
    """A hop of a flow: from one place to the next."""

    backlog_bytes: int
    """Bytes that are known to wait at the source of the hop."""
    backlog_files: int
    """Files that are known to wait at the source of the hop."""
    bytes: int
    """Bytes that the hop has moved since the flow was added."""
    bytes_per_second: NotRequired[Optional[float]]
    """Rate of the last seconds, in bytes per second; null while no data moves."""
    files: int
    """Files that the hop has moved since the flow was added."""
    job: NotRequired[Optional[NewJob]]
    next: NotRequired[Optional[Timestamp]]
    oldest: NotRequired[Optional[Timestamp]]
    reason: NotRequired[Optional[Reason]]
    run: NotRequired[Optional[str]]
    """Id of the job of the latest run."""
    state: FlowHopState
    """State of the hop."""


class FlowView(TypedDict):
    """A flow passes files from place to place, each as soon as it is whole."""

    comment: str
    """Free text."""
    created: NotRequired[Optional[Timestamp]]
    every_seconds: int
    """Most seconds after which a hop looks for new files again."""
    hops: List[FlowHopView]
    """The hops, in the order of the data."""
    id: str
    """Id."""
    owner: str
    """Owner of the jobs."""
    paused: bool
    """The flow is suspended: no run starts."""


class ForecastReview(TypedDict):
    """The forecast that the job gave after a tenth of its bytes, beside its end."""

    error: float
    """How much later than the job the likely end was, as a share of the time from the beginning of the attempt to the end of the job. Below 0 if it was earlier."""
    forecast: ForecastView
    """The forecast."""
    given: Timestamp
    """When it was given."""
    held: bool
    """The job ended between the earliest and the latest end."""


class ForecastView(TypedDict):
    """The forecast of the end of a running job. It comes from the amounts so far, from earlier jobs between the same sites, and from the limits that are known to come."""

    earliest: Timestamp
    """The job ends before this time with a probability of 10 %."""
    latest: Timestamp
    """The job ends after this time with a probability of 10 %."""
    likely: Timestamp
    """The job ends before this time with a probability of 50 %."""


class Health(TypedDict):
    """Whether the node is alive or ready."""

    notes: NotRequired[List[str]]
    """Parts of the node that do not work. The node serves without them."""
    status: str
    """`ok` or `ready`."""


class IndependentNode(TypedDict):
    """A node that shares the file system of its site, and no cluster."""

    addresses: List[str]
    """Addresses of the node, each as `HOST[:PORT]`."""
    identity: str
    """Identity that the node proves."""


class InterfaceShare(TypedDict):
    """The share of one network interface."""

    interface: str
    """Its name."""
    share: float
    """Share of the bytes that all interfaces of the machine sent, from 0 to 1."""


class InviteView(TypedDict):
    """An invitation that was made, with its token."""

    addresses: List[str]
    """Addresses of the inviting node."""
    expires: Timestamp
    """When the invitation ends."""
    id: str
    """Id of the invitation, needed to revoke it."""
    token: str
    """The token of the invitation. Only this answer shows it."""


class JobList(TypedDict):
    """A page of jobs."""

    jobs: List[JobView]
    """The jobs, the newest first."""
    next: NotRequired[Optional[str]]
    """Cursor of the next page; null after the last page."""


class JobReport(TypedDict):
    """All data of a job."""

    attempts: List[AttemptView]
    """The attempts, oldest first."""
    bottlenecks: Dict[str, float]
    """Share of the samples in which each stage was the bottleneck, by stage."""
    bytes_again: NotRequired[int]
    """Bytes that the attempts sent more than once, not counted in `bytes_moved`."""
    bytes_moved: int
    """Bytes that the attempts moved."""
    description: NewJob
    """The job as it was submitted."""
    destinations: NotRequired[List[JobView]]
    """The job of each destination, for a job with several."""
    evenness: NotRequired[Optional[EvennessView]]
    failures: List[FailureGroup]
    """Failed entries grouped by reason."""
    figures: Dict[str, Distribution]
    """Distribution of each figure over the samples, by name. Figures of hosts are those of all nodes that ran the job."""
    forecast: NotRequired[Optional[ForecastReview]]
    job: JobView
    """The job."""
    joules_per_terabyte: NotRequired[Optional[float]]
    """Energy of the processor packages of all nodes that ran the job, per terabyte moved, in joules; null if a machine does not measure it."""
    made: Timestamp
    """When the report was made."""
    missing: NotRequired[List[MissingNode]]
    """Nodes of the cluster that ran attempts of the job and cannot be asked now. Their lines and samples are missing."""
    nodes: NotRequired[List[NodeShare]]
    """Each node that worked on a divided job, according to the samples."""
    samples: List[SampleView]
    """The samples, the oldest first."""
    seconds_running: float
    """Seconds during which an attempt ran."""
    time_line: List[LogLine]
    """Tuner changes, lost connections, notes and errors, the oldest first."""


class JobView(TypedDict):
    """A job."""

    attempts: int
    """Number of attempts so far."""
    buffered: NotRequired[Optional[int]]
    """Bytes that arrived while the job ran, are durable in the transfer buffer of this node, and are not at their export yet. Only at the node with the destination. Of many files below it, the first ones count."""
    created: Timestamp
    """When the job was submitted."""
    deadline: NotRequired[Optional[Timestamp]]
    destination: str
    """Place to copy to; of several, the first."""
    destinations: NotRequired[Optional[DestinationCount]]
    ended: NotRequired[Optional[Timestamp]]
    id: str
    """Short id. Ids sort by the time of submission."""
    kind: str
    """Kind of the job."""
    label: str
    """Free text that describes the job to people."""
    limit: NotRequired[Optional[int]]
    """Limit in bytes per second."""
    moved: NotRequired[Moved]
    """Amounts moved, summed over all attempts."""
    next_attempt: NotRequired[Optional[Timestamp]]
    node: NotRequired[Optional[str]]
    """The node that runs the job."""
    not_before: NotRequired[Optional[Timestamp]]
    owner: str
    """Owner of the job."""
    parent: NotRequired[Optional[str]]
    """Id of the parent: the job with several destinations or sources to which this job belongs."""
    priority: int
    """Jobs with a higher priority run first."""
    progress: NotRequired[Optional[ProgressView]]
    reason: NotRequired[Optional[Reason]]
    request: NotRequired[Optional[str]]
    """Id of the request that submitted the job, as in its header `X-Request-Id` and in the logs."""
    since: Timestamp
    """When the job entered its state."""
    sources: List[str]
    """Places to copy from."""
    started: NotRequired[Optional[Timestamp]]
    state: JobState
    """State of the job."""
    summary: NotRequired[Optional[Dict[str, Any]]]
    """Summary of the last attempt that ended, as in `--json`."""


class KeepInBuffer(TypedDict):
    """Files whose stay in the buffer changes."""

    place: str
    """Place of a file or directory of this node, as `here:/EXPORT/PATH`."""
    seconds: NotRequired[Optional[int]]
    """The files stay for this time from now on. With 0 they may be evicted when room is needed. Without a value they stay until this changes."""


class KeptFiles(TypedDict):
    """Temporary files that stayed, for one reason."""

    files: int
    """Number of files."""
    paths: List[Any]
    """Some of their paths, below the requested one."""
    reason: str
    """Why they stayed."""


class LimitView(TypedDict):
    """A limit."""

    jobs_max: NotRequired[Optional[int]]
    """Maximum number of concurrent jobs; null is no limit."""
    name: str
    """Name of the node, owner or site; `*` is each of them."""
    rate: NotRequired[Optional[int]]
    """Bytes per second; null is no limit."""
    scope: LimitScopeName
    """Scope of the limit."""
    time_zone: str
    """Name of the time zone of the windows; empty is UTC."""
    trouble: NotRequired[Optional[str]]
    """Fault of the limit; null if there is none. While the time zone is unknown, the windows apply in UTC."""
    windows: List[WindowView]
    """Rates by time of day. The first window that matches counts."""


class LineOrigin(TypedDict):
    """A line of the log that another site wrote."""

    job: str
    """Id of the job at that site."""
    seq: int
    """Number of the line in the log of that site."""
    site: str
    """Name of the site."""


class ListedInvite(TypedDict):
    """An invitation in the list, without its token."""

    created: NotRequired[Optional[Timestamp]]
    ended: NotRequired[Optional[Timestamp]]
    expires: Timestamp
    """When it ends at the latest."""
    id: str
    """Id of the invitation, needed to revoke it."""
    maker: NotRequired[Optional[str]]
    """User that made it; null if the cluster had an older level then."""
    usable: bool
    """A node can join with it now: it is unused and has not ended, and its maker is still an admin."""
    used_by: NotRequired[Optional[str]]
    """Node that joined with it: the name of a member, or the identity of a removed node. Null if it is unused."""


class Listing(TypedDict):
    """A page of a directory, sorted by the bytes of the names."""

    entries: List[EntryView]
    """The entries."""
    next: NotRequired[Any]
    """Cursor of the next page; null after the last page."""


LogLine = TypedDict(
    "LogLine",
    {
        "at": "Timestamp",
        "attempt": "int",
        "event": "Dict[str, Any]",
        "from": "NotRequired[Optional[LineOrigin]]",
        "node": "NotRequired[Optional[str]]",
        "seq": "int",
    },
)
"""A line of a job's log."""


class LogPage(TypedDict):
    """A page of a job's log."""

    lines: List[LogLine]
    """The lines, the oldest first."""
    missing: NotRequired[List[MissingNode]]
    """Nodes of the cluster that ran attempts of the job and cannot be asked now. Their lines are missing."""
    next: int
    """Value of `after` for the following lines."""


class Login(TypedDict):
    """A user's name and password, for a token that lasts one working day."""

    password: str
    """Password of the user."""
    user: str
    """Name of the user."""


class MissingNode(TypedDict):
    """A node whose part of a job's history is missing."""

    node: str
    """Name of the node."""
    why: str
    """Why the part is missing, and the remedy."""


class Moved(TypedDict):
    """Amounts that an attempt, or all attempts of a job, moved. Unlike [`Amount`], it tells bytes that were sent more than once."""

    bytes: int
    """Bytes of contents that arrived, each counted once."""
    bytes_again: int
    """Bytes sent more than once, not counted in `bytes`."""
    files: int
    """Completed files."""


class NewAccess(TypedDict):
    """An access rule to add or replace."""

    comment: NotRequired[str]
    """Free text."""
    expires: NotRequired[Optional[Timestamp]]
    export: str
    """Name of the export; `*` is all exports."""
    path: NotRequired[str]
    """Path below the export; empty is the whole export."""
    rights: List[RightName]
    """Allowed rights."""
    site: NotRequired[Optional[str]]
    """Name of the site of the export, for rules of users; default the queried node. The rule ends when the site is removed or its name gets another identity."""
    subject: str
    """Subject: an identity as `godwit id` prints it, or `user:NAME`."""


class NewDirectory(TypedDict):
    """A directory to make."""

    parents: NotRequired[bool]
    """Also makes missing parent directories, and accepts an existing directory."""
    place: str
    """Place of the directory, as `SITE:/EXPORT/PATH`."""


class NewFlow(TypedDict):
    """A flow to add or replace."""

    comment: NotRequired[str]
    """Free text."""
    every_seconds: NotRequired[int]
    """Most seconds after which a hop looks for new files again."""
    hops: List[NewJob]
    """The job of each hop, in the order of the data. Each has one source, a directory: the destination of the hop before."""
    paused: NotRequired[bool]
    """The flow is suspended: no run starts."""


class NewInvite(TypedDict):
    """An invitation to make."""

    seconds: NotRequired[Optional[int]]
    """Lifetime in seconds, from 60 to 604,800; default 3,600."""


class NewJob(TypedDict):
    """A job to submit."""

    deadline: NotRequired[Optional[Timestamp]]
    destination: str
    """Place to copy to, as `SITE:/EXPORT/PATH`."""
    divide: NotRequired[Divide]
    """Whether the job is divided among several nodes."""
    gather: NotRequired[bool]
    """Whether the job gathers its sources, which may be at different sites. The job is then the parent of a job for each source, and no node runs it itself. Contents of a source come below the name of its site in the destination, which must exist."""
    kind: NotRequired[str]
    """Kind of the job."""
    label: NotRequired[str]
    """Free text that describes the job to people."""
    limit: NotRequired[Optional[RateInput]]
    list: NotRequired[List[str]]
    """Paths below the one source: only these entries are transferred. A directory includes its contents only with `selection.recursive`. Without a list, all entries of the sources are selected."""
    manifest: NotRequired[bool]
    """Whether the job writes a manifest of the delivered entries. The node that runs the job keeps the manifest."""
    merge: NotRequired[Merge]
    """Where the contents of gathered sources go, and which entry stays if several have one name."""
    more_destinations: NotRequired[List[str]]
    """Further places to copy to. The job is then the parent of a job for each destination, and no node runs it itself."""
    not_before: NotRequired[Optional[Timestamp]]
    priority: NotRequired[int]
    """Jobs with a higher priority run first."""
    relay: NotRequired[Relay]
    """Whether a destination takes its data from another destination that is complete: after it failed or fell behind, or from the beginning. Only for a job with several destinations, and sources at this site."""
    remove_source_after: NotRequired[Optional[int]]
    """Files of the source are removed once this number of destinations have proven copies of them, after all destinations have ended. Without it, the source stays as it is."""
    retries_max: NotRequired[Optional[int]]
    """Number of retries. Without this number, only the deadline ends the retries."""
    selection: NotRequired[Optional[Selection]]
    settings: NotRequired[Dict[str, List[str]]]
    """Settings of the transfer by their names in the settings table, each with its values."""
    sources: List[str]
    """Places to copy from, each as `SITE:/EXPORT/PATH`."""


class NewLimit(TypedDict):
    """A limit to add or replace."""

    jobs_max: NotRequired[Optional[int]]
    """Maximum number of concurrent jobs; default no limit."""
    rate: NotRequired[Optional[RateInput]]
    time_zone: NotRequired[str]
    """Name of the time zone of the windows; empty is UTC."""
    windows: NotRequired[List[NewWindow]]
    """Rates by time of day. The first window that matches counts."""


class NewPassword(TypedDict):
    """A change of the caller's password."""

    current: str
    """The current password of the user."""
    new: str
    """The new password of the user, with at least 8 characters."""


class NewSchedule(TypedDict):
    """A job to submit repeatedly."""

    comment: NotRequired[str]
    """Free text."""
    cron: str
    """Cron expression."""
    disabled: NotRequired[bool]
    """The schedule is suspended: it submits no jobs."""
    job: NewJob
    """The job."""
    time_zone: NotRequired[str]
    """Time zone of the expression; empty is UTC."""


class NewSession(TypedDict):
    """Credentials for signing in to the page: a name and a password, or a token."""

    password: NotRequired[Optional[str]]
    """Password of the user."""
    token: NotRequired[Optional[str]]
    """Secret of a token, instead of name and password."""
    user: NotRequired[Optional[str]]
    """Name of the user."""


class NewShare(TypedDict):
    """A share to add or replace."""

    weight: int
    """Weight of the owner when owners compete. An owner without a share has the weight 1."""


class NewSite(TypedDict):
    """A site to add or replace."""

    addresses: List[str]
    """Addresses of the site's nodes, each as `HOST[:PORT]`."""
    comment: NotRequired[str]
    """Free text."""
    identity: str
    """Identity that its nodes prove."""
    nodes: NotRequired[List[IndependentNode]]
    """Independent nodes of the same file system, which are no cluster with the first node. Jobs to the site are divided among them all."""


class NewToken(TypedDict):
    """A token to make."""

    comment: NotRequired[str]
    """Free text."""
    expires: NotRequired[Optional[Timestamp]]
    password: NotRequired[Optional[str]]
    """The caller's password. With it the token does not end with the token or session of the request."""
    role: RoleName
    """Highest role of the token. The token never allows more than the role of its user."""
    user: NotRequired[Optional[str]]
    """User of the token; default the caller."""


class NewUser(TypedDict):
    """A user to add or replace."""

    disabled: NotRequired[bool]
    """The user cannot log in or use tokens."""
    password: NotRequired[Optional[str]]
    """Password for the page. Without a password, the user has tokens only."""
    revoke_tokens: NotRequired[bool]
    """Revokes all tokens of the user."""
    role: RoleName
    """Role of the user."""


class NewWebhook(TypedDict):
    """An address that receives reports of changes of jobs."""

    disabled: NotRequired[bool]
    """The webhook is suspended: it gets no deliveries."""
    events: NotRequired[List[str]]
    """States of jobs to report; empty is all."""
    owner: NotRequired[Optional[str]]
    """Owner of the jobs to report; default all owners."""
    secret: NotRequired[Optional[str]]
    """Key for signatures: `whsec_` and base64 of 24 to 64 bytes. Without it, an existing webhook keeps its key, and a new webhook gets a key that the answer shows."""
    url: str
    """Address of the receiver."""


NewWindow = TypedDict(
    "NewWindow",
    {
        "days": "List[int]",
        "from": "int",
        "rate": "NotRequired[Optional[RateInput]]",
        "to": "int",
    },
)
"""A rate for certain times of the week."""


class NodeInterface(TypedDict):
    """A network interface of a node."""

    addresses: NotRequired[List[str]]
    """Addresses."""
    bits_per_second: NotRequired[Optional[int]]
    """Link speed in bits per second; null if the driver does not report it."""
    name: NotRequired[str]
    """Name."""


class NodeProgress(TypedDict):
    """One node at work on a divided job."""

    bottleneck: NotRequired[Optional[Bottleneck]]
    bottleneck_text: NotRequired[Optional[str]]
    """The limit of the node and advice, as a sentence."""
    bytes_per_second: float
    """Rate of the last seconds, in bytes per second."""
    host: Dict[str, float]
    """Figures of the host of the node, by name."""
    node: str
    """Its name."""
    other_host: NotRequired[Dict[str, float]]
    """Figures of the host of the node `to`, by name; empty if it gives none."""
    stages: Dict[str, float]
    """Figures of the stages between the two nodes, by name."""
    streams: int
    """Number of attached streams."""
    to: str
    """The node of the destination that receives its data; empty if there is none."""


class NodeResources(TypedDict):
    """Resources of a node."""

    cores: NotRequired[int]
    """Processor cores."""
    interfaces: NotRequired[List[NodeInterface]]
    """Network interfaces that are up, without loopback."""
    memory_bytes: NotRequired[int]
    """Bytes of memory."""
    room: NotRequired[List[NodeRoom]]
    """Free space at its exports."""


class NodeRoom(TypedDict):
    """Free space at an export of a node."""

    export: NotRequired[str]
    """Name of the export."""
    free_bytes: NotRequired[Optional[int]]
    """Free bytes; null if unknown."""


class NodeShare(TypedDict):
    """The share of one node in a divided job."""

    began: Timestamp
    """Time of the first sample with data from the node."""
    bottleneck: NotRequired[Optional[Bottleneck]]
    bytes_per_second: float
    """Mean rate between the two, in bytes per second."""
    ended: Timestamp
    """Time of the last sample with data from the node."""
    interfaces: NotRequired[List[InterfaceShare]]
    """The network interfaces by which the node sent meanwhile, by the counts of its machine. Empty for fewer than two."""
    node: str
    """Its name."""
    share: float
    """Share of the data of all nodes, from 0 to 1."""


class NodeView(TypedDict):
    """The node that answers."""

    exports: List[ExportView]
    """Exports of the node."""
    identity: str
    """Identity that the node proves."""
    role: RoleName
    """Role of the caller."""
    started: Timestamp
    """When the node started."""
    user: str
    """Name of the caller."""
    version: str
    """Version of the program."""


class Peer(TypedDict):
    """A node or a site as others reach it."""

    addresses: List[str]
    """Addresses of its data port, each as `HOST[:PORT]`, in the order in which they are dialled."""
    identity: str
    """Identity that it proves."""
    name: str
    """Name, for people."""


class Problem(TypedDict):
    """Why a request was not carried out."""

    advice: NotRequired[Optional[str]]
    """Advice on what to do next, for people."""
    code: str
    """Code for programs: from the failure catalogue, or of the API."""
    detail: str
    """Message for people: the event, its object, whose fault it is, and what to do."""
    fault: NotRequired[Optional[str]]
    """The party that must act, as in the failure catalogue. Missing if the code is not in the catalogue of the node."""
    request: NotRequired[Optional[str]]
    """Id of the request, as in the log of the node."""
    retry: NotRequired[Optional[str]]
    """Whether a retry can help: `transient` or `permanent`."""
    status: int
    """The HTTP status."""
    title: str
    """The code in words."""
    type: str
    """`urn:godwit:problem:CODE`."""


class ProgressView(TypedDict):
    """Progress of a running attempt."""

    at: Timestamp
    """Time of these figures."""
    behind: NotRequired[bool]
    """The job reads again what jobs of the other destinations have read before, because it was slower. For a job with several destinations: true if one of them reads again."""
    bottleneck: NotRequired[Optional[Bottleneck]]
    bottleneck_text: NotRequired[Optional[str]]
    """The limit of the transfer and advice, as a sentence."""
    bytes: int
    """Finished bytes, including those of earlier attempts and of existing files."""
    bytes_per_second: NotRequired[Optional[float]]
    """Rate of the last seconds, in bytes per second; null while no data moves."""
    bytes_total: NotRequired[Optional[int]]
    """Bytes of all files; null until the scan has ended."""
    channels: NotRequired[List[ChannelView]]
    """The network paths of the transfer."""
    failed: int
    """Number of entries that failed so far."""
    files: int
    """Complete files."""
    files_settled: NotRequired[int]
    """Files that are settled: delivered, or there already."""
    files_total: NotRequired[int]
    """Files that the scan has found so far; all files once it has ended."""
    forecast: NotRequired[Optional[ForecastView]]
    host: NotRequired[Dict[str, float]]
    """Figures of the host that runs the attempt, by name."""
    moved: NotRequired[Moved]
    """Amounts that this attempt moved."""
    nodes: NotRequired[List[NodeProgress]]
    """The nodes at work on a divided job."""
    other_host: NotRequired[Dict[str, float]]
    """Figures of the host at the other end, by name; empty if it gives none."""
    scanning: NotRequired[bool]
    """The source is still being scanned."""
    stages: NotRequired[Dict[str, float]]
    """Figures of each stage in the last seconds, by name, as in the event `progress` of `--json`."""
    streams: int
    """Number of attached streams."""


class RateSeries(TypedDict):
    """The rates of the node, of one site, or of one network path."""

    bytes_per_second: List[Optional[float]]
    """Bytes per second, the oldest value first; null for a time in which the node did not run."""
    kind: RateKind
    """Subject of the rates."""
    name: str
    """Name of the node, site or channel."""


class RatesView(TypedDict):
    """The rates of jobs in the last hours."""

    begin: Timestamp
    """Time of the first value."""
    series: List[RateSeries]
    """The rates, each with the same number of values."""
    step_seconds: int
    """Seconds from one value to the next."""


class Reason(TypedDict):
    """Why a job is in its state."""

    code: str
    """For programs."""
    text: str
    """One sentence for people."""


class RemoveEntry(TypedDict):
    """An entry to remove."""

    place: str
    """Place of the entry, as `SITE:/EXPORT/PATH`."""
    recursive: NotRequired[bool]
    """Removes a directory with all its contents."""


class Removed(TypedDict):
    """Result of a removal."""

    directories: int
    """Removed directories."""
    failed: int
    """Entries that could not be removed."""
    failures: List[FailedPlace]
    """Some of the entries that could not be removed."""
    files: int
    """Removed files and links."""


RenameEntry = TypedDict(
    "RenameEntry",
    {
        "from": "str",
        "replace": "NotRequired[bool]",
        "to": "str",
    },
)
"""An entry to rename."""


class RetryDrain(TypedDict):
    """Waiting files that are tried again."""

    place: str
    """Place of a file or directory of this node, as `here:/EXPORT/PATH`."""


class Rule(TypedDict):
    """One rule."""

    include: bool
    """Matching entries are included; otherwise they are excluded."""
    pattern: str
    """The pattern, without any sign in front."""


class SampleView(TypedDict):
    """A measurement of a running job."""

    at: Timestamp
    """Time of the measurement."""
    attempt: int
    """The attempt, counted from 1."""
    bottleneck: NotRequired[Optional[Bottleneck]]
    bytes: int
    """Finished bytes."""
    bytes_per_second: float
    """Rate since the previous sample, in bytes per second."""
    files: int
    """Finished files."""
    forecast: NotRequired[Optional[ForecastView]]
    held: NotRequired[Moved]
    """Amounts that earlier runs had moved when the attempt started, as the destination reports."""
    host: Dict[str, float]
    """Figures of the host, by name."""
    moved: NotRequired[Moved]
    """Amounts that the attempt had moved."""
    node: NotRequired[Optional[str]]
    """Name of the measuring cluster node, unless it is the answering node."""
    nodes: NotRequired[List[NodeProgress]]
    """The nodes that worked on a divided job, each with its figures."""
    other_host: NotRequired[Dict[str, float]]
    """Figures of the host at the other end, by name; empty if it gives none."""
    site: NotRequired[Optional[str]]
    """Name of the measuring site, if another site ran the job."""
    stages: NotRequired[Dict[str, float]]
    """Figures of each stage, by name, as in the event `progress` of `--json`."""
    streams: int
    """Number of attached streams."""


class ScheduleView(TypedDict):
    """A job that is submitted repeatedly."""

    comment: str
    """Free text."""
    cron: str
    """Cron expression."""
    disabled: bool
    """The schedule is suspended: it submits no jobs."""
    fired: NotRequired[Optional[Timestamp]]
    id: str
    """Id."""
    job: NotRequired[Optional[NewJob]]
    next: NotRequired[Optional[Timestamp]]
    owner: str
    """Owner of the jobs."""
    reason: NotRequired[Optional[Reason]]
    time_zone: str
    """Time zone of the expression."""


class Selection(TypedDict):
    """Selected entries of the sources. Times are absolute, and rule files are resolved to rules, so no file remains to be read."""

    bytes_max: NotRequired[Optional[SizeInput]]
    bytes_min: NotRequired[Optional[SizeInput]]
    newer: NotRequired[Optional[When]]
    older: NotRequired[Optional[When]]
    one_file_system: NotRequired[bool]
    """The scan of a tree stops at mount points of other file systems."""
    recursive: NotRequired[bool]
    """Directories in the list include all their contents."""
    rules: NotRequired[List[Rule]]
    """The first rule that matches an entry decides."""


class SessionView(TypedDict):
    """The signed-in user."""

    expires: NotRequired[Optional[Timestamp]]
    role: NotRequired[Optional[RoleName]]
    user: NotRequired[Optional[str]]
    """Name of the user; null if no user is signed in."""
    users: bool
    """At least one user of the node can sign in with a password."""


class SettingView(TypedDict):
    """A setting of the settings table."""

    choices: List[str]
    """Allowed values; empty if they cannot be listed."""
    default: str
    """Default value; empty for an empty list."""
    detail: str
    """Further explanation; may be empty."""
    form: str
    """Form of a value."""
    help: str
    """Meaning, in one line."""
    job: bool
    """The setting is allowed in jobs."""
    list: bool
    """Several values are allowed."""
    name: str
    """Name of the setting, as after `--`."""
    origin: NotRequired[Optional[str]]
    """Origin of the value."""
    value: NotRequired[Optional[str]]
    """Value at this node; null if the setting is not the node's."""


class ShareView(TypedDict):
    """Weight of an owner when owners compete."""

    owner: str
    """The owner."""
    weight: int
    """The weight."""


class SiteView(TypedDict):
    """A site."""

    addresses: List[str]
    """Addresses of the site's nodes."""
    comment: str
    """Free text."""
    identity: str
    """Identity that its nodes prove."""
    name: str
    """Name of the site."""
    nodes: NotRequired[List[IndependentNode]]
    """Independent nodes of the same file system, which are no cluster with the first node."""


class TokenCreated(TypedDict):
    """A new token."""

    secret: str
    """The secret. Only this answer shows it."""
    token: TokenView
    """The token as it is listed."""


class TokenView(TypedDict):
    """A token."""

    comment: str
    """Free text."""
    created: Timestamp
    """When the token was made."""
    expires: NotRequired[Optional[Timestamp]]
    id: str
    """Id of the token, needed to revoke it."""
    kind: TokenKind
    """Origin of the token."""
    last_digits: str
    """Last characters of the secret."""
    parent: NotRequired[Optional[str]]
    """Id of the parent: the token or session that this token came from. The token ends with its parent."""
    revoked: NotRequired[Optional[Timestamp]]
    role: RoleName
    """Highest role of the token."""
    usable: bool
    """The token is valid now: neither the token nor a parent is revoked or expired, and none of their users is disabled."""
    user: str
    """User of the token."""


class UserView(TypedDict):
    """A user."""

    disabled: bool
    """The user cannot log in or use tokens."""
    has_password: bool
    """The user has a password."""
    name: str
    """Name of the user."""
    role: RoleName
    """Role of the user."""


class WebhookView(TypedDict):
    """An address that receives reports of changes of jobs."""

    disabled: bool
    """The webhook is suspended: it gets no deliveries."""
    events: List[str]
    """States of jobs to report; empty is all."""
    id: str
    """Id."""
    owner: NotRequired[Optional[str]]
    """Owner of the jobs to report; null is all owners."""
    secret: NotRequired[Optional[str]]
    """The key that the node made for a new webhook. Only this answer shows it."""
    url: str
    """Address of the receiver."""


class When(TypedDict):
    """A point in time, in seconds and nanoseconds since 1970-01-01 UTC."""

    nanoseconds: NotRequired[int]
    """Nanoseconds after `seconds`, below 10⁹."""
    seconds: int
    """Negative before 1970."""


WindowView = TypedDict(
    "WindowView",
    {
        "days": "List[int]",
        "from": "int",
        "rate": "NotRequired[Optional[int]]",
        "to": "int",
    },
)
"""A rate for certain times of the week."""


class WorkDoneView(TypedDict):
    """Counters of the work of a job."""

    assembled: int
    """Assembled large files."""
    bytes: int
    """Delivered bytes."""
    closed: int
    """Finished trees."""
    files: int
    """Delivered files."""
    files_left: int
    """Large files left to the final check of the tree."""
    leases: int
    """Number of leases so far."""
    parts: int
    """Finished parts."""
    parts_left: int
    """Parts that failed or were not needed. The final check of the tree handles their files."""
    scans: int
    """Finished scans."""
    scans_failed: int
    """Scans that failed."""


class WorkNodeView(TypedDict):
    """Items that a node holds."""

    assembles: int
    """Files to assemble."""
    closes: int
    """Trees to finish."""
    node: str
    """Name."""
    part_bytes: int
    """Bytes of the held parts."""
    parts: int
    """Held parts."""
    scans: int
    """Held scans."""


class WorkOpenView(TypedDict):
    """Open items of one kind."""

    held: int
    """Items that nodes hold."""
    kind: WorkKindName
    """Kind of the items."""
    part_bytes: int
    """Bytes of all parts among them."""
    ready: int
    """Items that any node may take."""
    waiting: int
    """Items that wait for other items."""


class WorkPairView(TypedDict):
    """The receivers of a node of the source."""

    limit: NotRequired[Optional[int]]
    """Share of the job's limit, in bytes per second."""
    node: str
    """Node of the source."""
    to: List[str]
    """Names of the nodes of the destination, in turn for each lease."""


class WorkRootView(TypedDict):
    """A copied tree."""

    destination: str
    """The directory of the copy, export first."""
    source: str
    """The source directory, export first."""


class WorkView(TypedDict):
    """The work of a divided job that has not ended."""

    at: Timestamp
    """When the answering node read this."""
    claim: str
    """Id of the claim at the destination."""
    controller: NotRequired[Optional[str]]
    """The node that controls the work; null while no node runs the job. Then nothing is done."""
    done: WorkDoneView
    """Counters of settled work."""
    epoch: int
    """Epoch of the controller. A higher epoch has taken over."""
    job: str
    """Id of the job."""
    nodes: List[WorkNodeView]
    """Held items of each sending node."""
    open: List[WorkOpenView]
    """Open items by kind. Kinds without open items are missing."""
    pairs: List[WorkPairView]
    """The receivers of each sending node; empty until the controller has claimed the destination."""
    problem: NotRequired[Optional[str]]
    """Why the answering node may not know the newest state, and the remedy; null if it knows it."""
    reported_by: str
    """Name of the answering node."""
    roots: List[WorkRootView]
    """The copied trees."""
    targets: List[Peer]
    """The nodes of the destination."""
    trouble: NotRequired[Optional[Reason]]
    waits_for_target: bool
    """A node of the destination is unreachable and may still write. Meanwhile no file is assembled, and no tree is finished. False while no node runs the job."""
    waits_for_writers: List[str]
    """Nodes of the source whose transfers were cut off and may still write. Meanwhile no file is assembled, and no tree is finished. Empty while no node runs the job."""

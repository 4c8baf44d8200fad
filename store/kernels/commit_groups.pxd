"""CommitGroups compiled: the same as in commit_groups.py, and flush_file, which syncs without the GIL."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdlib cimport free, malloc

# The locks inside of threading.Lock; they need no GIL.
cdef extern from "pythread.h" nogil:
    ctypedef void *PyThread_type_lock
    enum: WAIT_LOCK, NOWAIT_LOCK, PY_LOCK_ACQUIRED, PY_LOCK_INTR
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock lock)
    int PyThread_acquire_lock(PyThread_type_lock lock, int mode)
    int PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int is_interruptible)
    void PyThread_release_lock(PyThread_type_lock lock)

cdef extern from "commit_groups.h" nogil:
    enum: SYNCED, FOR_PYTHON
    long long monotonic_us()
    int sync_file(int descriptor, long long size)

cdef enum:
    DURABLE, NOT_DURABLE, FAILED, CLOSED

cdef long long MOST_MS = 1_000_000_000_000
cdef long long LINGER_US = 1_000

cdef struct Group:
    PyThread_type_lock gate
    long long next_offset
    long long users
    bint is_failed
    Group *next_unused


cdef inline int acquire_until(PyThread_type_lock lock, long long until_us, bint is_interruptible) noexcept nogil:
    cdef long long left_us = until_us - monotonic_us()
    return PyThread_acquire_lock_timed(lock, left_us if left_us > 0 else 0, is_interruptible)


cdef void free_groups(Group *group) noexcept:
    cdef Group *following
    while group != NULL:
        following = group.next_unused
        PyThread_free_lock(group.gate)
        free(group)
        group = following


cdef class CommitGroups:
    cdef PyThread_type_lock lock, bell
    cdef Group *gathering
    cdef Group *taken
    cdef Group *unused
    cdef long long flushed
    cdef readonly long long waiting_count
    cdef bint is_closed, is_rung, is_asleep

    def __cinit__(self):
        self.flushed = -1
        self.lock, self.bell = PyThread_allocate_lock(), PyThread_allocate_lock()
        self.gathering = self.new_group()
        if self.lock == NULL or self.bell == NULL or self.gathering == NULL:
            raise MemoryError
        PyThread_acquire_lock(self.bell, NOWAIT_LOCK)

    def __dealloc__(self):
        free_groups(self.gathering)
        free_groups(self.taken)
        free_groups(self.unused)
        if self.bell != NULL:
            PyThread_free_lock(self.bell)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    def wait(self, long long next_offset, long long timeout_ms):
        """As in commit_groups.py; an exception of a signal handler ends the wait."""
        cdef long long until_us = monotonic_us() + min(max(timeout_ms, 0), MOST_MS) * 1000
        cdef Group *group = self.join(next_offset)
        cdef int outcome = PY_LOCK_INTR
        if group == NULL:
            return CLOSED
        try:
            while outcome == PY_LOCK_INTR:
                with nogil:
                    self.wake()
                    outcome = acquire_until(group.gate, until_us, True)
                    if outcome == PY_LOCK_ACQUIRED:
                        # Released before this thread takes the GIL, so that the next one wakes meanwhile.
                        PyThread_release_lock(group.gate)
                if outcome == PY_LOCK_INTR:
                    PyErr_CheckSignals()
        finally:
            outcome = self.leave(group, next_offset)
        return outcome

    def close(self):
        self.enter()
        self.is_closed = True
        self.exit()

    def ring(self):
        self.enter()
        self.is_rung = True
        self.exit()
        self.wake()

    def sleep(self, long long timeout_ms):
        with nogil:
            self.rest(monotonic_us() + timeout_ms * 1000)
        self.is_rung = False

    def take(self):
        cdef Group *group = self.next_group()
        return group.next_offset if group != NULL else -1

    def answer(self, long long flushed_where):
        self.open(flushed_where, False)

    def fail(self):
        self.open(self.flushed, True)

    def flush_file(
        self, int descriptor, long long size, long long flushed_where, long long file_end, long long limit_ms
    ):
        cdef long long groups = 0, syncs = 0, until_us = monotonic_us() + limit_ms * 1000
        cdef int code = SYNCED
        cdef Group *group
        with nogil:
            while monotonic_us() < until_us and lost_pages == 0:
                self.rest(monotonic_us() + LINGER_US)
                group = self.next_group()
                if group == NULL or group.next_offset > file_end:
                    break
                if group.next_offset > flushed_where:
                    code = sync_file(descriptor, size)
                    syncs += code == SYNCED
                    if code != SYNCED or lost_pages != 0:
                        break
                    flushed_where = group.next_offset
                groups += 1
                self.open(flushed_where, False)
        return groups, syncs, flushed_where, max(code, 0)

    # Without the GIL.

    cdef void enter(self) noexcept nogil:
        PyThread_acquire_lock(self.lock, WAIT_LOCK)

    cdef void exit(self) noexcept nogil:
        PyThread_release_lock(self.lock)

    cdef Group *join(self, long long next_offset) noexcept nogil:
        """Return the gathering group with one more thread in it; NULL if the groups are closed."""
        cdef Group *group = NULL
        self.enter()
        if not self.is_closed:
            group = self.gathering
            group.users += 1
            self.waiting_count += 1
            group.next_offset = max(group.next_offset, next_offset)
        self.exit()
        return group

    cdef int leave(self, Group *group, long long next_offset) noexcept nogil:
        """Return the outcome of a thread's wait, and take the thread out of its group."""
        cdef int outcome
        self.enter()
        if group.is_failed:
            outcome = FAILED
        else:
            outcome = DURABLE if self.flushed >= next_offset else NOT_DURABLE
        self.waiting_count -= 1
        self.drop(group)
        self.exit()
        return outcome

    cdef void wake(self) noexcept nogil:
        cdef bint was_asleep
        self.enter()
        was_asleep, self.is_asleep = self.is_asleep, False
        self.exit()
        if was_asleep:
            PyThread_release_lock(self.bell)

    cdef void rest(self, long long until_us) noexcept nogil:
        """Return when there is a group to flush, the bell rings, or the time is over."""
        cdef bint is_awake, is_ringing
        self.enter()
        is_awake = self.is_rung or self.taken != NULL or self.gathering.next_offset >= 0
        self.is_asleep = not is_awake
        self.exit()
        if is_awake or acquire_until(self.bell, until_us, False) == PY_LOCK_ACQUIRED:
            return
        self.enter()
        is_ringing, self.is_asleep = not self.is_asleep, False
        self.exit()
        if is_ringing:
            PyThread_acquire_lock(self.bell, WAIT_LOCK)

    cdef Group *next_group(self) noexcept nogil:
        """Return the taken group, taking the gathering one if there is none; NULL without members or memory."""
        cdef Group *group
        self.enter()
        group = self.taken
        if group == NULL and self.gathering.next_offset >= 0:
            group = self.new_group()
            if group != NULL:
                self.taken, self.gathering = self.gathering, group
                group = self.taken
        self.exit()
        return group

    cdef void open(self, long long flushed, bint is_failed) noexcept nogil:
        """Open the gate of the taken group, if there is one."""
        cdef Group *group
        self.enter()
        self.flushed = max(self.flushed, flushed)
        group, self.taken = self.taken, NULL
        if group != NULL:
            group.is_failed = is_failed
        self.exit()
        if group != NULL:
            PyThread_release_lock(group.gate)
            self.enter()
            self.drop(group)
            self.exit()

    cdef Group *new_group(self) noexcept nogil:
        """Return a group without members, its gate shut; NULL without memory."""
        cdef Group *group = self.unused
        if group != NULL:
            self.unused = group.next_unused
        else:
            group = <Group *> malloc(sizeof(Group))
            if group == NULL:
                return NULL
            group.gate = PyThread_allocate_lock()
            if group.gate == NULL:
                free(group)
                return NULL
        PyThread_acquire_lock(group.gate, NOWAIT_LOCK)
        group.next_offset, group.users, group.is_failed, group.next_unused = -1, 1, False, NULL
        return group

    cdef void drop(self, Group *group) noexcept nogil:
        """Remove one user of a group; without users keep it, its gate open, for reuse."""
        group.users -= 1
        if group.users == 0:
            group.next_unused, self.unused = self.unused, group

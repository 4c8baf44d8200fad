"""Declarations of lost_pages.h, and functions for Python, called by store/files/lost_pages.py."""

cdef extern from "lost_pages.h" nogil:
    enum: MOST_MAPS
    long long lost_pages
    long long settled_pages
    bint has_lost_page()
    bint install_handler()
    void set_watched(int number, unsigned long long start, unsigned long long size, bint is_writable)
    bint take_lost_range(unsigned long long *start, unsigned long long *stop)


most_watched_maps = MOST_MAPS


def catch_lost_pages():
    """Install the handler of SIGBUS; return False on a system without one."""
    return install_handler()


def watch_map(int number, unsigned long long start, unsigned long long size, bint is_writable):
    """Let the handler replace pages of this map; size 0 ends that."""
    set_watched(number, start, size, is_writable)


def lost_page_count():
    """Return the number of pages lost since the process began."""
    return lost_pages


def take_lost_ranges():
    """Return the address ranges [start, stop) of pages lost since the last call."""
    cdef unsigned long long start, stop
    ranges = []
    while take_lost_range(&start, &stop):
        ranges.append((start, stop))
    return ranges


def settle_lost_pages():
    """Let append_message write again, after the lost pages were reported."""
    global settled_pages
    settled_pages = lost_pages

"""Declarations of native.h; native.py has the same functions for uncompiled kernels."""

cdef extern from "native.h" nogil:
    long long clock_ms()
    long long read_byte(const unsigned char *buffer, long long position)
    long long read_short(const unsigned char *buffer, long long position)
    long long read_int(const unsigned char *buffer, long long position)
    long long read_long(const unsigned char *buffer, long long position)
    void write_byte(unsigned char *buffer, long long position, long long value)
    void write_short(unsigned char *buffer, long long position, long long value)
    void write_int(unsigned char *buffer, long long position, long long value)
    void write_long(unsigned char *buffer, long long position, long long value)
    void copy_bytes(unsigned char *target, long long position, const unsigned char *source, long long start,
                    long long size)
    bint bytes_equal(const unsigned char *buffer, long long position, const unsigned char *other, long long start,
                     long long size)
    long long body_crc(const unsigned char *buffer, long long position, long long size)
    long long find_head(const unsigned char *buffer, long long head, long long start, long long stop)
    long long find_bytes(const unsigned char *buffer, const unsigned char *text, long long size, long long start,
                         long long stop)
    long long find_either(const unsigned char *buffer, long long first, long long second, long long start,
                          long long stop)
    long long find_special(const unsigned char *buffer, long long start, long long stop, bint is_utf8)
    long long find_all(const unsigned char *buffer, long long wanted, long long start, long long stop)
    long long lowest_bit(long long bits)
    void prefetch(const unsigned char *buffer, long long position)
    void prefetch_near(const unsigned char *buffer, long long position)
    void set_crc_function(unsigned long long address)
    unsigned int call_crc_function(const unsigned char *buffer, unsigned long long size)

cdef extern from "native.h":
    unsigned char *address_of(object values)
    object tuple_of(object kind, tuple items)
    object field_of(object holder, object slots, long long number)
    object set_number(object holder, object slots, long long number, long long value)


cdef inline long long as_long(object value) except? -1:
    return value


cdef inline tuple as_tuple(object values):
    return <tuple> values


cdef inline unsigned char *start_of(Py_buffer *buffer) noexcept nogil:
    return <unsigned char *> buffer.buf


cdef inline long long size_of(Py_buffer *buffer) noexcept nogil:
    return buffer.len


def use_crc(unsigned long long address):
    """Use the function at `address` for the CRC-32: crc32_gzip_refl(initial, bytes, size) of isal; 0 for the tables."""
    set_crc_function(address)


def crc32(const unsigned char[::1] buffer):
    """Return the CRC-32 of a buffer, by the function in use."""
    return call_crc_function(&buffer[0], len(buffer))

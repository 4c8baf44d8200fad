/* Operations on bytes for compiled kernels; native.py has the same for uncompiled kernels.

   No function checks bounds. A signed value is sign-extended to 64 bits. */

#include <Python.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>
#include <time.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BIG16(value) __builtin_bswap16(value)
#define BIG32(value) __builtin_bswap32(value)
#define BIG64(value) __builtin_bswap64(value)
#else
#define BIG16(value) (value)
#define BIG32(value) (value)
#define BIG64(value) (value)
#endif

typedef const unsigned char *bytes_in;
typedef unsigned char *bytes_out;
typedef long long integer;

static inline integer clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (integer)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline integer read_byte(bytes_in buffer, integer position) { return buffer[position]; }

static inline integer read_short(bytes_in buffer, integer position) {
    uint16_t word;
    memcpy(&word, buffer + position, 2);
    return (int16_t)BIG16(word);
}

static inline integer read_int(bytes_in buffer, integer position) {
    uint32_t word;
    memcpy(&word, buffer + position, 4);
    return (int32_t)BIG32(word);
}

static inline integer read_long(bytes_in buffer, integer position) {
    uint64_t word;
    memcpy(&word, buffer + position, 8);
    return (int64_t)BIG64(word);
}

static inline void write_byte(bytes_out buffer, integer position, integer value) {
    buffer[position] = (unsigned char)value;
}

static inline void write_short(bytes_out buffer, integer position, integer value) {
    uint16_t word = BIG16((uint16_t)value);
    memcpy(buffer + position, &word, 2);
}

static inline void write_int(bytes_out buffer, integer position, integer value) {
    uint32_t word = BIG32((uint32_t)value);
    memcpy(buffer + position, &word, 4);
}

static inline void write_long(bytes_out buffer, integer position, integer value) {
    uint64_t word = BIG64((uint64_t)value);
    memcpy(buffer + position, &word, 8);
}

static inline void copy_bytes(bytes_out target, integer position, bytes_in source, integer start, integer size) {
    memcpy(target + position, source + start, (size_t)size);
}

/* Compares eight bytes a step, or four; the last step may overlap. A call of memcmp takes longer for most topics. */
static inline int bytes_equal(bytes_in buffer, integer position, bytes_in other, integer start, integer size) {
    bytes_in a = buffer + position, b = other + start;
    uint64_t x, y;
    integer at = 0;
    if (size < 4) {
        for (; at < size; at++)
            if (a[at] != b[at]) return 0;
        return 1;
    }
    if (size < 8) return read_int(a, 0) == read_int(b, 0) && read_int(a, size - 4) == read_int(b, size - 4);
    for (; at + 8 <= size; at += 8) {
        memcpy(&x, a + at, 8);
        memcpy(&y, b + at, 8);
        if (x != y) return 0;
    }
    memcpy(&x, a + size - 8, 8);
    memcpy(&y, b + size - 8, 8);
    return x == y;
}

static inline void prefetch(bytes_in buffer, integer position) {
    __builtin_prefetch((const void *)((uintptr_t)buffer + (uintptr_t)position), 0, 2);
}

/* The same into the first level of the cache, for a line that is changed. */
static inline void prefetch_near(bytes_in buffer, integer position) {
    __builtin_prefetch((const void *)((uintptr_t)buffer + (uintptr_t)position), 1, 3);
}

/* First position in start ... stop - 4 of an int whose upper three bytes are those of head, or -1. */
static inline integer find_head(bytes_in buffer, integer head, integer start, integer stop) {
    const unsigned char wanted[3] = {(unsigned char)(head >> 24), (unsigned char)(head >> 16),
                                     (unsigned char)(head >> 8)};
    while (start + 4 <= stop) {
        bytes_in found = (bytes_in)memchr(buffer + start, wanted[0], (size_t)(stop - 3 - start));
        if (!found) return -1;
        if (found[1] == wanted[1] && found[2] == wanted[2]) return found - buffer;
        start = found - buffer + 1;
    }
    return -1;
}

/* A bit for each of the 16 bytes at `data` that is one byte or the other. */
static inline uint32_t matches(bytes_in data, unsigned char first, unsigned char second) {
#ifdef __SSE2__
    __m128i block = _mm_loadu_si128((const __m128i *)data);
    __m128i same = _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8((char)first)),
                                _mm_cmpeq_epi8(block, _mm_set1_epi8((char)second)));
    return (uint32_t)_mm_movemask_epi8(same);
#else
    uint32_t bits = 0;
    for (int at = 0; at < 16; at++) bits |= (uint32_t)(data[at] == first || data[at] == second) << at;
    return bits;
#endif
}

/* First position in start ... stop - 1 of one byte or the other, or stop. Reads only before stop. */
static inline integer find_either(bytes_in buffer, integer first, integer second, integer start, integer stop) {
    unsigned char a = (unsigned char)first, b = (unsigned char)second;
    uint32_t found;
    integer at = start;
    for (; stop - at >= 16; at += 16) {
        found = matches(buffer + at, a, b);
        if (found) return at + __builtin_ctz(found);
    }
    if (at >= stop) return stop;
    if (stop >= 16) { /* the last 16 bytes, without those before `at` */
        found = matches(buffer + stop - 16, a, b) >> (at - (stop - 16));
        return found ? at + __builtin_ctz(found) : stop;
    }
    for (; at < stop; at++)
        if (buffer[at] == a || buffer[at] == b) return at;
    return stop;
}

/* First position in start ... stop - 1 of a quote, a backslash, a control character or, unless is_utf8, a byte that is no
   ASCII; else stop. Reads only before stop. */
static inline integer find_special(bytes_in buffer, integer start, integer stop, int is_utf8) {
    unsigned char most = is_utf8 ? 255 : 127;
#ifdef __SSE2__
    for (; stop - start >= 16; start += 16) {
        __m128i block = _mm_loadu_si128((const __m128i *)(buffer + start));
        __m128i is_control = _mm_cmpeq_epi8(block, _mm_min_epu8(block, _mm_set1_epi8(' ' - 1)));
        uint32_t found = matches(buffer + start, '"', '\\') | (uint32_t)_mm_movemask_epi8(is_control);
        if (!is_utf8) found |= (uint32_t)_mm_movemask_epi8(block);
        if (found) return start + __builtin_ctz(found);
    }
#endif
    for (; start < stop; start++)
        if (buffer[start] < ' ' || buffer[start] > most || buffer[start] == '"' || buffer[start] == '\\') return start;
    return stop;
}

/* First position in start ... stop - size of `size` bytes of text, or -1. */
static inline integer find_bytes(bytes_in buffer, bytes_in text, integer size, integer start, integer stop) {
#ifdef __SSE2__
    /* The last byte is compared too, as the first one alone occurs often in properties. */
    for (; size > 0 && stop - start >= size + 15; start += 16) {
        bytes_in end = buffer + start + size - 1;
        uint32_t found = matches(buffer + start, text[0], text[0]) & matches(end, text[size - 1], text[size - 1]);
        for (; found; found &= found - 1) {
            integer at = start + __builtin_ctz(found);
            if (memcmp(buffer + at, text, (size_t)size) == 0) return at;
        }
    }
#endif
    while (size > 0 && stop - start >= size) {
        bytes_in found = (bytes_in)memchr(buffer + start, text[0], (size_t)(stop - size + 1 - start));
        if (!found) return -1;
        if (memcmp(found, text, (size_t)size) == 0) return found - buffer;
        start = found - buffer + 1;
    }
    return -1;
}

/* A bit for each of at most 64 bytes from start on that is this byte, the lowest for the first. Reads only before stop,
   or inside of the page of start, which is readable. */
static inline integer find_all(bytes_in buffer, integer wanted, integer start, integer stop) {
    unsigned char byte = (unsigned char)wanted;
    uint64_t found = 0;
    if (start >= stop) return 0;
    if (stop - start < 64 && ((uintptr_t)(buffer + start) & 4095) > 4096 - 64) {
        for (integer at = start; at < stop; at++) found |= (uint64_t)(buffer[at] == byte) << (at - start);
        return found;
    }
    for (int at = 0; at < 64; at += 16) found |= (uint64_t)matches(buffer + start + at, byte, byte) << at;
    return stop - start < 64 ? found & (((uint64_t)1 << (stop - start)) - 1) : found;
}

static inline integer lowest_bit(integer bits) { return __builtin_ctzll((unsigned long long)bits); }

/* CRC-32 by isal's function, else by eight tables: table[k][b] is the CRC of byte b followed by k zero bytes. */
typedef uint32_t (*crc_function)(uint32_t initial, bytes_in data, uint64_t size);
static uint32_t crc_table[8][256];

static uint32_t table_crc(uint32_t initial, bytes_in data, uint64_t size) {
    uint32_t value = ~initial;
    for (; size >= 8; size -= 8, data += 8) {
        value ^= data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        value = crc_table[7][value & 0xFF] ^ crc_table[6][value >> 8 & 0xFF] ^ crc_table[5][value >> 16 & 0xFF] ^
                crc_table[4][value >> 24] ^ crc_table[3][data[4]] ^ crc_table[2][data[5]] ^ crc_table[1][data[6]] ^
                crc_table[0][data[7]];
    }
    for (; size; size--, data++) value = crc_table[0][(value ^ *data) & 0xFF] ^ value >> 8;
    return ~value;
}

static crc_function crc32_of = table_crc;

static inline void set_crc_function(unsigned long long address) {
    for (int byte = 0; byte < 256; byte++) {
        uint32_t value = (uint32_t)byte;
        for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
        crc_table[0][byte] = value;
    }
    for (int zeros = 1; zeros < 8; zeros++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t value = crc_table[zeros - 1][byte];
            crc_table[zeros][byte] = crc_table[0][value & 0xFF] ^ value >> 8;
        }
    crc32_of = address ? (crc_function)(uintptr_t)address : table_crc;
}

static inline uint32_t call_crc_function(bytes_in buffer, uint64_t size) { return crc32_of(0, buffer, size); }

/* RocketMQ's CRC of a range of bytes: IEEE CRC-32 without its top bit. */
static inline integer body_crc(bytes_in buffer, integer position, integer size) {
    return call_crc_function(buffer + position, (uint64_t)size) & 0x7FFFFFFF;
}

/* The address of the first byte of bytes, a bytearray, or a memoryview of contiguous bytes. */
static inline unsigned char *address_of(PyObject *values) {
    if (PyBytes_Check(values)) return (unsigned char *)PyBytes_AS_STRING(values);
    if (PyByteArray_Check(values)) return (unsigned char *)PyByteArray_AS_STRING(values);
    return (unsigned char *)PyMemoryView_GET_BUFFER(values)->buf;
}

/* The items of a tuple as a tuple of class `kind`, which must add no fields. */
static inline PyObject *tuple_of(PyObject *kind, PyObject *items) {
    PyTypeObject *type = (PyTypeObject *)kind;
    Py_ssize_t size = PyTuple_GET_SIZE(items);
    PyObject *made = type->tp_alloc(type, size);
    if (!made) return NULL;
    for (Py_ssize_t at = 0; at < size; at++) {
        PyObject *item = PyTuple_GET_ITEM(items, at);
        Py_INCREF(item);
        PyTuple_SET_ITEM(made, at, item);
    }
    return made;
}

/* The place of a slot's value in an object of the slot's own class; NULL for another class, which may compute it. */
static inline PyObject **slot_in(PyObject *holder, PyMemberDescrObject *slot) {
    return Py_TYPE(holder) == PyDescr_TYPE(slot) ? (PyObject **)((char *)holder + slot->d_member->offset) : NULL;
}

/* The field of `holder` for descriptor `number` of `slots`; looked up as an attribute only if the class is another. */
static inline PyObject *field_of(PyObject *holder, PyObject *slots, integer number) {
    PyMemberDescrObject *slot = (PyMemberDescrObject *)PyTuple_GET_ITEM(slots, number);
    PyObject **place = slot_in(holder, slot);
    if (!place || !*place) return PyObject_GetAttr(holder, PyDescr_NAME(slot));
    Py_INCREF(*place);
    return *place;
}

/* Sets the field to a number, and returns its object. An equal object stays: most messages have the millisecond of the
   one before. */
static inline PyObject *set_number(PyObject *holder, PyObject *slots, integer number, integer value) {
    PyObject *name = PyDescr_NAME(PyTuple_GET_ITEM(slots, number)), *before = field_of(holder, slots, number), *after;
    if (!before) return NULL;
    if (PyLong_Check(before) && PyLong_AsLongLong(before) == value) return before;
    Py_DECREF(before);
    PyErr_Clear();
    after = PyLong_FromLongLong(value);
    if (after && PyObject_SetAttr(holder, name, after) < 0) Py_CLEAR(after);
    return after;
}

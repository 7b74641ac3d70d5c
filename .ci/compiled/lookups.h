/* What compiled code does otherwise than mypyc would have it: included behind mypyc's own run-time library.
 *
 * Attribute reads and global names have a cache at each place, as in the interpreter since 3.11; mypyc's own go the general way.
 *
 * A field of a msgspec.Struct is a slot at a fixed offset of its type. A member of an enumeration, and every other attribute of a
 * class, stays the same object while the class keeps its version tag. So does a global name while the module's dictionary keeps its
 * version (3.11 only: later dictionaries have none that costs nothing).
 *
 * NaN stays one object: Python takes equal objects for equal values, so two structs with math.nan in a field are equal. Compiled
 * code keeps plain doubles and would make a new object each time.
 */
#ifndef VEHICLED_LOOKUPS_H
#define VEHICLED_LOOKUPS_H

#include <Python.h>
#include <structmember.h>
#include "CPy.h"

static CPy_NOINLINE PyObject *shared_nan(void) {
    static PyObject *nan = NULL;
    if (nan == NULL) {
        PyObject *math = PyImport_ImportModule("math");
        nan = math == NULL ? NULL : PyObject_GetAttrString(math, "nan");
        Py_XDECREF(math);
    }
    return Py_XNewRef(nan);
}

/* Only NaN with the very bits of math.nan: the sign of another one is kept. */
static inline PyObject *boxed_float(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return unlikely(bits == 0x7ff8000000000000) ? shared_nan() : PyFloat_FromDouble(value);
}

#define PyFloat_FromDouble(value) boxed_float(value)

#ifndef Py_GIL_DISABLED

typedef struct {
    PyTypeObject *type;
    unsigned int version;
    Py_ssize_t offset;
    PyObject *value; /* Borrowed from the type, which holds it while it has this version. */
} AttributeCache;

/* Whether attributes of classes of this metaclass are read as those of any class; one of enumerations adds __getattr__ at most. */
static int reads_as_type(PyTypeObject *metaclass) {
    static PyObject *name = NULL;
    if (name == NULL) {
        name = PyUnicode_InternFromString("__getattribute__");
    }
    return name != NULL && _PyType_Lookup(metaclass, name) == _PyType_Lookup(&PyType_Type, name);
}

static CPy_NOINLINE PyObject *read_attribute(PyObject *object, PyObject *name, AttributeCache *cache) {
    PyTypeObject *type = Py_TYPE(object);
    if (PyType_Check(object)) {
        PyTypeObject *owner = (PyTypeObject *)object;
        PyObject *value = _PyType_Lookup(owner, name);
        if (value != NULL && Py_TYPE(value)->tp_descr_get == NULL && _PyType_Lookup(type, name) == NULL &&
            reads_as_type(type) && owner->tp_version_tag != 0) {
            *cache = (AttributeCache){owner, owner->tp_version_tag, 0, value};
        }
    } else if (type->tp_getattro == PyObject_GenericGetAttr) {
        PyObject *slot = _PyType_Lookup(type, name);
        if (slot != NULL && Py_IS_TYPE(slot, &PyMemberDescr_Type) && type->tp_version_tag != 0) {
            PyMemberDef *member = ((PyMemberDescrObject *)slot)->d_member;
            if (member->type == T_OBJECT_EX && !(member->flags & READ_RESTRICTED)) {
                *cache = (AttributeCache){type, type->tp_version_tag, member->offset, NULL};
            }
        }
    }
    return PyObject_GetAttr(object, name);
}

static inline PyObject *cached_attribute(PyObject *object, PyObject *name, AttributeCache *cache) {
    if (Py_TYPE(object) == cache->type && cache->value == NULL && cache->type->tp_version_tag == cache->version) {
        PyObject *value = *(PyObject **)((char *)object + cache->offset);
        if (likely(value != NULL)) {
            return Py_NewRef(value);
        }
    } else if ((PyTypeObject *)object == cache->type && cache->value != NULL && cache->type->tp_version_tag == cache->version) {
        return Py_NewRef(cache->value);
    }
    return read_attribute(object, name, cache);
}

#undef CPyObject_GetAttr
#define CPyObject_GetAttr(object, name) ({ static AttributeCache cache_; cached_attribute((object), (name), &cache_); })

#if PY_VERSION_HEX < 0x030C0000

typedef struct {
    uint64_t version; /* No two dictionaries share one. */
    PyObject *key;
    PyObject *value; /* Borrowed from the dictionary. */
    unsigned int misses;
} ItemCache;

static CPy_NOINLINE PyObject *read_item(PyObject *dict, PyObject *key, ItemCache *cache) {
    PyObject *value = CPyDict_GetItem(dict, key);
    /* A place that misses often reads an ordinary dictionary. */
    if (value != NULL && cache->misses < 100 && PyDict_CheckExact(dict)) {
        *cache = (ItemCache){((PyDictObject *)dict)->ma_version_tag, key, value, cache->misses + 1};
    }
    return value;
}

static inline PyObject *cached_item(PyObject *dict, PyObject *key, ItemCache *cache) {
    if (likely(key == cache->key && PyDict_CheckExact(dict) && ((PyDictObject *)dict)->ma_version_tag == cache->version)) {
        return Py_NewRef(cache->value);
    }
    return read_item(dict, key, cache);
}

#define CPyDict_GetItem(dict, key) ({ static ItemCache item_cache_; cached_item((dict), (key), &item_cache_); })

#endif
#endif
#endif

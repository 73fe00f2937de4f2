// The part of XLA's C interface for foreign functions that a handler needs, as documented in jaxlib's
// xla/ffi/api/c_api.h. XLA keeps the layouts of a version, and every structure says its own size, so the package is
// built without the headers of jaxlib. The names are XLA's without its prefixes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spmvgpu::xla {

inline constexpr int kMajorVersion = 0, kMinorVersion = 3;

struct Error;  // owned and deleted by XLA
struct Context;

enum class ErrorCode : int { kFailedPrecondition = 9, kInternal = 13 };
enum class ExtensionType : int { kMetadata = 1 };
enum class AttributeType : int { kScalar = 3 };
enum class Stage : int { kInstantiate = 0, kExecute = 3 };
enum class DataType : int { kS64 = 5, kF32 = 11, kF64 = 12, kC64 = 15, kC128 = 18 };

struct Extension {
    std::size_t struct_size;
    ExtensionType type;
    Extension* next;
};

struct Head {
    std::size_t struct_size;
    Extension* extensions;
};

struct Version : Head {
    int major, minor;
};

struct TypeId {
    std::int64_t value;
};

struct TypeInfo : Head {
    void (*deleter)(void* object);
};

struct Metadata {
    std::size_t struct_size;
    Version version;
    std::uint32_t traits;
    TypeId state_type;
};

struct MetadataExtension : Extension {
    Metadata* metadata;
};

struct ByteSpan {
    const char* data;
    std::size_t size;
};

struct Scalar {
    DataType type;
    void* value;
};

struct Buffer : Head {
    DataType type;
    void* data;
    std::int64_t rank;
    std::int64_t* dims;
};

// Arguments, or results.
struct Buffers : Head {
    std::int64_t size;
    int* types;  // XLA knows one type, a buffer
    Buffer** items;
};

struct Attributes : Head {
    std::int64_t size;
    AttributeType* types;
    ByteSpan** names;
    void** items;
};

struct ErrorArguments : Head {
    const char* message;
    ErrorCode code;
};

struct StreamArguments : Head {
    Context* context;
    void* stream;  // out
};

struct StateArguments : Head {
    Context* context;
    Stage stage;
    TypeId* type;
    void* state;  // in, or out
};

using Unused = void (*)();

struct Api : Head {
    Version version;
    const void* internal;
    Error* (*make_error)(ErrorArguments*);
    Unused error_message, delete_error, register_handler;
    Error* (*get_stream)(StreamArguments*);
    Unused register_type, get_context;
    Error* (*set_state)(StateArguments*);
    Error* (*get_state)(StateArguments*);
};

struct CallFrame : Head {
    const Api* api;
    Context* context;
    Stage stage;
    Buffers arguments, results;
    Attributes attributes;
};

using Handler = Error*(CallFrame*);

}  // namespace spmvgpu::xla

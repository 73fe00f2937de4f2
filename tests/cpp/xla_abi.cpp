// The layouts of cpp/bindings/xla_abi.hpp against those of an installed jaxlib. It compiles, or says what differs.
#include "bindings/xla_abi.hpp"

#include <cstddef>

#include "xla/ffi/api/c_api.h"

#if XLA_FFI_API_MINOR >= 4  // which gave the structure another name
#define XLA_FFI_Extension_Base XLA_FFI_InternalExtension
#endif

using namespace spmvgpu::xla;

#define SAME(Ours, field, Theirs, other)                                        \
    static_assert(offsetof(Ours, field) == offsetof(XLA_FFI_##Theirs, other) && \
                      sizeof(Ours::field) == sizeof(XLA_FFI_##Theirs::other),   \
                  #Ours "::" #field)

SAME(Extension, type, Extension_Base, type);
SAME(Extension, next, Extension_Base, next);
SAME(Version, major, Api_Version, major_version);
SAME(Version, minor, Api_Version, minor_version);
SAME(TypeInfo, deleter, TypeInfo, deleter);
SAME(Metadata, version, Metadata, api_version);
SAME(Metadata, traits, Metadata, traits);
SAME(Metadata, state_type, Metadata, state_type_id);
SAME(MetadataExtension, metadata, Metadata_Extension, metadata);
SAME(ByteSpan, data, ByteSpan, ptr);
SAME(ByteSpan, size, ByteSpan, len);
SAME(Scalar, type, Scalar, dtype);
SAME(Scalar, value, Scalar, value);
SAME(Buffer, type, Buffer, dtype);
SAME(Buffer, data, Buffer, data);
SAME(Buffer, rank, Buffer, rank);
SAME(Buffer, dims, Buffer, dims);
SAME(Buffers, size, Args, size);
SAME(Buffers, items, Args, args);
SAME(Buffers, size, Rets, size);
SAME(Buffers, items, Rets, rets);
SAME(Attributes, size, Attrs, size);
SAME(Attributes, types, Attrs, types);
SAME(Attributes, names, Attrs, names);
SAME(Attributes, items, Attrs, attrs);
SAME(ErrorArguments, message, Error_Create_Args, message);
SAME(ErrorArguments, code, Error_Create_Args, errc);
SAME(StreamArguments, context, Stream_Get_Args, ctx);
SAME(StreamArguments, stream, Stream_Get_Args, stream);
SAME(StateArguments, context, State_Get_Args, ctx);
SAME(StateArguments, stage, State_Get_Args, stage);
SAME(StateArguments, type, State_Get_Args, type_id);
SAME(StateArguments, state, State_Get_Args, state);
SAME(StateArguments, state, State_Set_Args, state);
SAME(StateArguments, type, State_Set_Args, type_id);
SAME(Api, version, Api, api_version);
SAME(Api, internal, Api, internal_api);
SAME(Api, make_error, Api, XLA_FFI_Error_Create);
SAME(Api, get_stream, Api, XLA_FFI_Stream_Get);
SAME(Api, set_state, Api, XLA_FFI_State_Set);
SAME(Api, get_state, Api, XLA_FFI_State_Get);
SAME(CallFrame, api, CallFrame, api);
SAME(CallFrame, context, CallFrame, ctx);
SAME(CallFrame, stage, CallFrame, stage);
SAME(CallFrame, arguments, CallFrame, args);
SAME(CallFrame, results, CallFrame, rets);
SAME(CallFrame, attributes, CallFrame, attrs);

static_assert(kMajorVersion == XLA_FFI_API_MAJOR && kMinorVersion <= XLA_FFI_API_MINOR);
static_assert(int(DataType::kS64) == XLA_FFI_DataType_S64 && int(DataType::kF32) == XLA_FFI_DataType_F32);
static_assert(int(DataType::kF64) == XLA_FFI_DataType_F64 && int(DataType::kC64) == XLA_FFI_DataType_C64);
static_assert(int(DataType::kC128) == XLA_FFI_DataType_C128);
static_assert(int(AttributeType::kScalar) == XLA_FFI_AttrType_SCALAR);
static_assert(int(ExtensionType::kMetadata) == XLA_FFI_Extension_Metadata);
static_assert(int(Stage::kInstantiate) == XLA_FFI_ExecutionStage_INSTANTIATE);
static_assert(int(Stage::kExecute) == XLA_FFI_ExecutionStage_EXECUTE);
static_assert(int(ErrorCode::kFailedPrecondition) == XLA_FFI_Error_Code_FAILED_PRECONDITION);
static_assert(int(ErrorCode::kInternal) == XLA_FFI_Error_Code_INTERNAL);

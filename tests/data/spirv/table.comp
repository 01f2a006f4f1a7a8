#version 450
#extension GL_EXT_buffer_reference : require
// A table of addresses, without a length: the compiler asks for arrays of descriptors without a length too.
layout(local_size_x = 1) in;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Row { uint v[]; };
layout(std430, set = 0, binding = 0) readonly buffer Table { Row rows[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Sum { uint sum[]; };
void main() { sum[gl_GlobalInvocationID.x] = rows[gl_GlobalInvocationID.x].v[1]; }

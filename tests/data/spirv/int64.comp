#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_atomic_int64 : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x = 1) in;
layout(constant_id = 9) const uint64_t wide = 5;
layout(set = 0, binding = 0) buffer Target { uint64_t v[]; } target;
void main() { atomicAdd(target.v[0], wide); target.v[1] = subgroupAdd(gl_LocalInvocationIndex); }

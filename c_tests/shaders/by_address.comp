#version 450
#extension GL_EXT_buffer_reference : require
// Reaches everything by address: to[i] = from[i] * factor.
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer From { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer To { uint v[]; };
layout(push_constant) uniform Push { From from; To to; uint count; uint factor; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) to.v[i] = from.v[i] * factor;
}

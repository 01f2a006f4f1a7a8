#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_scalar_block_layout : require
// Elements of every size and make; all or some of their bytes are stored.
layout(local_size_x = 32) in;
struct Box { float lo; float hi; float id; float pad; };
struct Hollow { float a; vec2 b; };
layout(push_constant) uniform Push { uint n; uint flag; };
layout(binding = 0) readonly buffer Source { float source[]; };
layout(binding = 1) writeonly buffer Vec4 { vec4 whole_vector[]; };
layout(binding = 2) writeonly buffer Components { vec4 components[]; };
layout(binding = 3) writeonly buffer SomeComponents { vec4 some_components[]; };
layout(binding = 4) writeonly buffer Vec3 { vec3 padded[]; };
layout(binding = 5, scalar) writeonly buffer Scalar { vec3 tight[]; };
layout(binding = 6) writeonly buffer Boxes { Box boxes[]; };
layout(binding = 7) writeonly buffer SomeBoxes { Box some_boxes[]; };
layout(binding = 8) writeonly buffer Struct { Box whole_boxes[]; };
layout(binding = 9) writeonly buffer Hollows { Hollow hollows[]; };
layout(binding = 10) writeonly buffer Header { uint count; uint capacity; float data[]; } header;
layout(binding = 11) writeonly buffer Bytes { uint8_t bytes[]; };
layout(binding = 12) writeonly buffer Halves { float16_t halves[]; };
layout(binding = 13) writeonly buffer Fixed { float fixed_length[40]; };
layout(binding = 14) writeonly buffer Matrices { mat4 matrices[]; };
layout(binding = 15, std140) buffer Spaced { float spaced[40]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    float x = source[i];
    whole_vector[i] = vec4(x);
    components[i].xy = vec2(x);
    components[i].w = x;
    if (x > 0) components[i].z = 1; else components[i].z = -1;
    some_components[i].xyz = vec3(x);
    padded[i] = vec3(x);
    tight[i] = vec3(x);
    boxes[i].lo = x;
    boxes[i].hi = x;
    boxes[i].id = x;
    boxes[i].pad = x;
    some_boxes[i].lo = x;
    some_boxes[i].hi = x + 1;
    whole_boxes[i] = Box(x, x, x, x);
    hollows[i] = Hollow(x, vec2(x));
    header.count = 1;
    if (i < n) header.data[i] = x;
    bytes[i] = uint8_t(1);
    halves[i] = float16_t(x);
    fixed_length[i] = x;
    matrices[i] = mat4(x);
    spaced[i] = x;
}

#version 450
#extension GL_EXT_buffer_reference : require
// Reaches memory by its physical address: nothing in a launch says which bytes.
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer Cell { uint value; };
layout(push_constant) uniform Push { Cell cell; };
void main() { cell.value = 1u; }

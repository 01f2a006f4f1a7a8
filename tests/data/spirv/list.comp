#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference) buffer Node;
layout(buffer_reference, std430) buffer Node { Node next; uint value; };
layout(push_constant) uniform Push { Node first; uint more; };
layout(set = 0, binding = 0) buffer Target { uint v[]; } target;
void main() { target.v[0] = first.next.value + more; first.value = 1; }

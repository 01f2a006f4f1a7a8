#version 450
#extension GL_EXT_buffer_reference : require
// Sums a list whose links are addresses; the first is in a buffer that is bound.
layout(local_size_x = 1) in;
layout(buffer_reference) buffer Node;
layout(buffer_reference, std430) readonly buffer Node { Node next; uint value; uint last; };
layout(std430, set = 0, binding = 0) readonly buffer Head { Node first; } head;
layout(std430, set = 0, binding = 1) writeonly buffer Sum { uint sum; };
void main() {
    Node node = head.first;
    uint total = node.value;
    for (uint i = 0; i < 16 && node.last == 0; i++) {
        node = node.next;
        total += node.value;
    }
    sum = total;
}

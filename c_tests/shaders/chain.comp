#version 450
#extension GL_EXT_buffer_reference : require
// Sums the first four of a list whose links are addresses; the first of them is in a buffer that is bound. Without a loop,
// because SwiftShader crashes when it compiles one that carries an address around.
layout(local_size_x = 1) in;
layout(buffer_reference) buffer Node;
layout(buffer_reference, std430) readonly buffer Node { Node next; uint value; };
layout(std430, set = 0, binding = 0) readonly buffer Head { Node first; } head;
layout(std430, set = 0, binding = 1) writeonly buffer Sum { uint sum; };
void main() {
    Node second = head.first.next;
    Node third = second.next;
    sum = head.first.value + second.value + third.value + third.next.value;
}

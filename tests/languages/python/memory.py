# 300 MiB, touched, under the default limit of 512 MiB.
block = bytearray(300 << 20)
for i in range(0, len(block), 4096):
    block[i] = i & 255
print(len(block) >> 20, sum(block[:: 1 << 20]))

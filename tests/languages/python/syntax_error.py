print("never printed")
if True
    pass

local function inner(values)
  return values.missing.field
end

print("before")
inner({})

package main

import (
	"slices"
	"strings"
)

// definitionsAt is the start of the path of a definition within a schema.
const definitionsAt = "#/definitions/"

// schema is a JSON schema, or its equivalent in OpenAPI.
type schema map[string]any

// kept returns the keywords that strict copies to its result. The patterns and bounds are not
// needed for safety, since the API server checks them too, but kubeconform reports a wrong value
// earlier.
func kept() []string {
	return []string{"$ref", "type", "required", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"}
}

// strict returns a copy of a schema that rejects unknown fields and has no descriptions.
func strict(s schema) schema {
	out := schema{}
	for _, keyword := range kept() {
		if value, ok := s[keyword]; ok {
			out[keyword] = value
		}
	}
	if s["x-kubernetes-int-or-string"] == true || s["format"] == "int-or-string" {
		out["type"] = []string{"integer", "string"}
	}
	if items, ok := asSchema(s["items"]); ok {
		out["items"] = strict(items)
	}
	if values, ok := asSchema(s["additionalProperties"]); ok {
		out["additionalProperties"] = strict(values)
	}
	fields, ok := asSchema(s["properties"])
	if !ok {
		return out
	}
	properties := schema{}
	for name, field := range fields {
		if below, ok := asSchema(field); ok {
			properties[name] = strict(below)
		}
	}
	out["properties"] = properties
	if s["x-kubernetes-preserve-unknown-fields"] != true {
		out["additionalProperties"] = false
	}
	return out
}

func asSchema(value any) (schema, bool) {
	switch value := value.(type) {
	case schema:
		return value, true
	case map[string]any:
		return value, true
	}
	return nil, false
}

// withoutStatus removes the field status from a schema, because no manifest sets it.
func withoutStatus(kind schema) schema {
	if properties, ok := asSchema(kind["properties"]); ok {
		delete(properties, "status")
	}
	if required, ok := kind["required"].([]any); ok {
		kind["required"] = slices.DeleteFunc(slices.Clone(required), func(field any) bool { return field == "status" })
	}
	return kind
}

// references returns the names of the definitions that a schema refers to.
func references(s schema) []string {
	var out []string
	for keyword, value := range s {
		switch keyword {
		case "$ref":
			if ref, ok := value.(string); ok {
				out = append(out, strings.TrimPrefix(ref, definitionsAt))
			}
		case "items", "additionalProperties":
			if below, ok := asSchema(value); ok {
				out = append(out, references(below)...)
			}
		case "properties":
			fields, _ := asSchema(value)
			for _, field := range fields {
				if below, ok := asSchema(field); ok {
					out = append(out, references(below)...)
				}
			}
		}
	}
	return out
}

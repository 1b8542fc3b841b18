package report

import "reflect"

// withoutNil puts an empty list in place of each nil one in a value, whatever it is part of: the
// JSON of a nil list is null, which the page cannot go through. Maps are the same.
func withoutNil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			withoutNil(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				withoutNil(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			withoutNil(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	default:
		// All other kinds have a form of their own in JSON when they are zero.
	}
}

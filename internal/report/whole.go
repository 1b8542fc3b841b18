package report

import "reflect"

// withoutNil replaces each nil slice and nil map in a value by an empty one, at any depth. The JSON
// of a nil slice is null, and the page cannot iterate over null.
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
		// Zero values of all other kinds have a JSON form that is not null.
	}
}

package engine

import "slices"

// orphans holds the records of deleted pods by the key of their controller, until another pod of
// the controller inherits them. The zero value is empty. The caller holds the lock of the records.
type orphans[R comparable] struct {
	of map[string][]R
}

// leave adds the record of a deleted pod.
func (e *orphans[R]) leave(controller string, r R) {
	if e.of == nil {
		e.of = make(map[string][]R)
	}
	e.of[controller] = append(e.of[controller], r)
}

// has reports whether a deleted pod of the controller has a record.
func (e *orphans[R]) has(controller string) bool { return len(e.of[controller]) > 0 }

// inherit removes and returns the largest record of a controller. The controller must have one.
func (e *orphans[R]) inherit(controller string, compare func(a, b R) int) R {
	r := slices.MaxFunc(e.of[controller], compare)
	e.remove(func(other R) bool { return other == r })
	return r
}

// remove deletes each record that the function goes selects.
func (e *orphans[R]) remove(goes func(R) bool) {
	for controller, left := range e.of {
		if left = slices.DeleteFunc(left, goes); len(left) == 0 {
			delete(e.of, controller)
		} else {
			e.of[controller] = left
		}
	}
}

func (e *orphans[R]) len() int {
	n := 0
	for _, left := range e.of {
		n += len(left)
	}
	return n
}

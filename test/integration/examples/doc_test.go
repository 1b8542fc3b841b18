// Package examples plays what the README and examples/ show, as it stands there, on the playground that the README starts.
package examples

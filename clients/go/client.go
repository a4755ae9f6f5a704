package millrace

/*
#cgo pkg-config: millrace
#include <stdlib.h>
#include <millrace.h>
*/
import "C"

import (
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Forever is the life of an item that does not expire.
const Forever time.Duration = 0

// relativeMax is the longest life that memcached takes for one; longer ones are told to it as Unix times.
const relativeMax = 30 * 24 * time.Hour

// Item is what is stored under a key.
type Item struct {
	Value []byte
	// Flags is the number that was stored with it.
	Flags uint32
	// Version is the write that made it, for CompareAndSwap.
	Version uint64
}

// Options say how a client is opened. Zero values are the defaults.
type Options struct {
	// Timeout is how long an operation waits for its answer; 0: a second.
	Timeout time.Duration
	// User and Password are for servers with users, their -Y.
	User, Password string
	// CA is a file of authorities (PEM), for tls: addresses.
	CA string
	// Cert and Key are the own certificate and its key, for servers that ask for one.
	Cert, Key string
}

// Client is a session with a server. Goroutines may share it: one operation is under way at a time, so for more have more clients. After a server was
// gone, the next operation connects again.
type Client struct {
	mutex    sync.Mutex
	session  *C.millrace_session
	address  string
	options  Options
	isClosed bool
	// What the library writes to; here, since what is lent to C is on the heap anyway.
	item C.millrace_item
	sum  C.uint64_t
}

// Open opens a session with the server at an address: shm:PATH (the server's --shm), unix:PATH, HOST:PORT or tls:HOST:PORT. Options may be nil.
func Open(address string, options *Options) (*Client, error) {
	client := &Client{address: address}
	if options != nil {
		client.options = *options
	}
	client.mutex.Lock()
	defer client.mutex.Unlock()
	if err := client.open(); err != nil {
		return nil, err
	}
	return client, nil
}

// Close ends it.
func (c *Client) Close() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.isClosed = true
	c.end()
}

// Get is the item of a key, or ErrNotFound.
func (c *Client) Get(key string) (*Item, error) {
	return c.read(func() C.enum_millrace_status {
		return C.millrace_gets(c.session, pointer(key), C.size_t(len(key)), &c.item)
	})
}

// GetAndTouch is the item of a key, which lives so long from now on, or ErrNotFound.
func (c *Client) GetAndTouch(key string, life time.Duration) (*Item, error) {
	return c.read(func() C.enum_millrace_status {
		return C.millrace_gat(c.session, pointer(key), C.size_t(len(key)), expiry(life), &c.item)
	})
}

// GetMulti has the items of those of the keys that are there, asked for together.
func (c *Client) GetMulti(keys []string) (map[string]*Item, error) {
	found := make(map[string]*Item, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	// Of C's memory: what is lent to C may not point to more of Go's.
	size := 0
	for _, key := range keys {
		size += len(key)
	}
	names := C.malloc(C.size_t(size + 1))
	wanted := (*C.millrace_key)(C.malloc(C.size_t(len(keys)) * C.sizeof_millrace_key))
	got := (*C.millrace_item)(C.malloc(C.size_t(len(keys)) * C.sizeof_millrace_item))
	defer func() { C.free(names); C.free(unsafe.Pointer(wanted)); C.free(unsafe.Pointer(got)) }()
	bytes, wants, items := unsafe.Slice((*byte)(names), size+1), unsafe.Slice(wanted, len(keys)), unsafe.Slice(got, len(keys))
	at := 0
	for i, key := range keys {
		wants[i] = C.millrace_key{key: unsafe.Pointer(&bytes[at]), key_len: C.size_t(len(key))}
		at += copy(bytes[at:], key)
	}
	err := c.ask(func() C.enum_millrace_status {
		return C.millrace_multi_get(c.session, wanted, C.size_t(len(keys)), got)
	}, func() {
		for i, key := range keys {
			if items[i].value != nil {
				found[key] = item(&items[i])
			}
		}
	})
	return found, err
}

// Set stores a value, whatever is there.
func (c *Client) Set(key string, value []byte, flags uint32, life time.Duration) error {
	return c.ask(func() C.enum_millrace_status {
		return C.millrace_set(c.session, pointer(key), C.size_t(len(key)), first(value), C.size_t(len(value)), C.uint32_t(flags), expiry(life))
	}, nil)
}

// Add stores where nothing is; else it is ErrNotStored.
func (c *Client) Add(key string, value []byte, flags uint32, life time.Duration) error {
	return c.ask(func() C.enum_millrace_status {
		return C.millrace_add(c.session, pointer(key), C.size_t(len(key)), first(value), C.size_t(len(value)), C.uint32_t(flags), expiry(life))
	}, nil)
}

// Replace stores where something is; else it is ErrNotStored.
func (c *Client) Replace(key string, value []byte, flags uint32, life time.Duration) error {
	return c.ask(func() C.enum_millrace_status {
		return C.millrace_replace(c.session, pointer(key), C.size_t(len(key)), first(value), C.size_t(len(value)), C.uint32_t(flags), expiry(life))
	}, nil)
}

// CompareAndSwap stores where a version is, of Get; else it is ErrExists or ErrNotFound.
func (c *Client) CompareAndSwap(key string, version uint64, value []byte, flags uint32, life time.Duration) error {
	return c.ask(func() C.enum_millrace_status {
		return C.millrace_cas(c.session, pointer(key), C.size_t(len(key)), first(value), C.size_t(len(value)), C.uint32_t(flags), expiry(life),
			C.uint64_t(version))
	}, nil)
}

// Append adds bytes behind those that are there; ErrNotStored: nothing is.
func (c *Client) Append(key string, value []byte) error {
	return c.ask(func() C.enum_millrace_status {
		return C.millrace_append(c.session, pointer(key), C.size_t(len(key)), first(value), C.size_t(len(value)))
	}, nil)
}

// Prepend adds bytes before those that are there; ErrNotStored: nothing is.
func (c *Client) Prepend(key string, value []byte) error {
	return c.ask(func() C.enum_millrace_status {
		return C.millrace_prepend(c.session, pointer(key), C.size_t(len(key)), first(value), C.size_t(len(value)))
	}, nil)
}

// Delete removes an item; ErrNotFound: there was none.
func (c *Client) Delete(key string) error {
	return c.ask(func() C.enum_millrace_status {
		return C.millrace_delete(c.session, pointer(key), C.size_t(len(key)))
	}, nil)
}

// Touch gives an item another life; ErrNotFound: there is none.
func (c *Client) Touch(key string, life time.Duration) error {
	return c.ask(func() C.enum_millrace_status {
		return C.millrace_touch(c.session, pointer(key), C.size_t(len(key)), expiry(life))
	}, nil)
}

// Increment adds to a decimal number, modulo 2^64, and says the sum; ErrNotFound: nothing is there.
func (c *Client) Increment(key string, by uint64) (sum uint64, err error) {
	err = c.ask(func() C.enum_millrace_status {
		return C.millrace_incr(c.session, pointer(key), C.size_t(len(key)), C.uint64_t(by), &c.sum)
	}, func() { sum = uint64(c.sum) })
	return sum, err
}

// Decrement subtracts from a decimal number, down to 0, and says what is left; ErrNotFound: nothing is there.
func (c *Client) Decrement(key string, by uint64) (left uint64, err error) {
	err = c.ask(func() C.enum_millrace_status {
		return C.millrace_decr(c.session, pointer(key), C.size_t(len(key)), C.uint64_t(by), &c.sum)
	}, func() { left = uint64(c.sum) })
	return left, err
}

func (c *Client) read(call func() C.enum_millrace_status) (*Item, error) {
	var found *Item
	err := c.ask(call, func() { found = item(&c.item) })
	return found, err
}

// ask has the library do something with the session, and, if that went well, done take what it wrote before anybody else asks.
func (c *Client) ask(call func() C.enum_millrace_status, done func()) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.session == nil {
		if err := c.open(); err != nil {
			return err
		}
	}
	status := call()
	if status != C.MILLRACE_OK {
		return c.failed(status)
	}
	if done != nil {
		done()
	}
	return nil
}

func (c *Client) open() error {
	if c.isClosed {
		return &Error{Argument, "the client was closed"}
	}
	address, ca, cert, key := C.CString(c.address), text(c.options.CA), text(c.options.Cert), text(c.options.Key)
	options := (*C.millrace_options)(C.calloc(1, C.sizeof_millrace_options))
	defer func() {
		for _, memory := range []unsafe.Pointer{unsafe.Pointer(address), unsafe.Pointer(ca), unsafe.Pointer(cert), unsafe.Pointer(key), unsafe.Pointer(options)} {
			C.free(memory)
		}
	}()
	options.timeout_ms, options.tls_ca, options.tls_cert, options.tls_key = milliseconds(c.options.Timeout), ca, cert, key
	// Why it was not opened is told to the thread that tried.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if status := C.millrace_open(address, options, &c.session); status != C.MILLRACE_OK {
		return &Error{Status(status), C.GoString(C.millrace_error(nil))}
	}
	if c.options.User == "" {
		return nil
	}
	user, password := C.CString(c.options.User), C.CString(c.options.Password)
	defer func() { C.free(unsafe.Pointer(user)); C.free(unsafe.Pointer(password)) }()
	if status := C.millrace_login(c.session, user, password); status != C.MILLRACE_OK {
		err := c.failed(status)
		c.end()
		return err
	}
	return nil
}

func (c *Client) end() {
	if c.session != nil {
		C.millrace_close(c.session)
		c.session = nil
	}
}

func (c *Client) failed(status C.enum_millrace_status) error {
	// Outcomes have no text of their own, and happen often.
	switch Status(status) {
	case NotFound:
		return ErrNotFound
	case NotStored:
		return ErrNotStored
	case Exists:
		return ErrExists
	}
	err := &Error{Status(status), C.GoString(C.millrace_error(c.session))}
	if err.Status == Gone || err.Status == Protocol {
		c.end()
	}
	return err
}

func item(found *C.millrace_item) *Item {
	return &Item{Value: C.GoBytes(unsafe.Pointer(found.value), C.int(found.value_len)), Flags: uint32(found.flags), Version: uint64(found.version)}
}

// pointer is where a string's bytes are. (unsafe.StringData is of a later Go.)
func pointer(text string) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&text))
}

func first(value []byte) unsafe.Pointer {
	if len(value) == 0 {
		return nil
	}
	return unsafe.Pointer(&value[0])
}

// text is a string of C's, or null.
func text(text string) *C.char {
	if text == "" {
		return nil
	}
	return C.CString(text)
}

// expiry is a life in seconds as memcached has it: whole ones, 0 for ever, beyond 30 days a Unix time.
func expiry(life time.Duration) C.int64_t {
	switch {
	case life == Forever:
		return 0
	case life < 0:
		return -1
	case life > relativeMax:
		return C.int64_t(time.Now().Add(life).Unix() + 1)
	}
	return C.int64_t((life + time.Second - 1) / time.Second)
}

func milliseconds(timeout time.Duration) C.uint32_t {
	switch ms := timeout.Milliseconds(); {
	case timeout <= 0:
		return 0
	case ms == 0:
		return 1
	case ms > 1<<32-1:
		return 1<<32 - 1
	default:
		return C.uint32_t(ms)
	}
}

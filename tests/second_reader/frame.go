package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/zstd"
)

const (
	headerLength     = 80
	maxMessage       = 8 << 20
	maxAttached      = 1 << 30
	maxIncarnation   = 999
	kindTransaction  = 1
	kindCheckpoint   = 2
	kindSegment      = 3
	kindDeletes      = 5
	maxHeldObject    = memory / 2
	formatVersion    = 1
	codecNone        = 0
	codecZstd        = 1
	anyIncarnation   = 0
	digestOffset     = 48
	incarnationStart = 40
)

// A frame that was opened: section 3.1, checks 1 to 6.
type frame struct {
	logID       [16]byte
	incarnation uint32
	digest      [32]byte
	size        uint64
	message     []byte // decoded
	attachments []byte
}

// openFrame opens the object at a path. An incarnation of 0 means: the name says none.
func openFrame(path string, kind byte, incarnation uint32) (*frame, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault{gone, "not found"}
	}
	if err != nil {
		return nil, damage("cannot be opened")
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, &fault{gone, "no regular file"}
	}
	if info.Size() > maxHeldObject {
		return nil, judgeLarge(file, uint64(info.Size()), kind, incarnation)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxHeldObject+1))
	if err != nil {
		return nil, damage("cannot be read")
	}
	return parseFrame(data, kind, incarnation)
}

func parseFrame(data []byte, kind byte, incarnation uint32) (*frame, error) {
	if err := checkLength(data, uint64(len(data))); err != nil {
		return nil, err
	}
	hash := sha256.New()
	hash.Write(data[:digestOffset])
	hash.Write(data[headerLength:])
	if err := checkHeader(data, hash.Sum(nil), kind, incarnation); err != nil {
		return nil, err
	}
	stored := binary.LittleEndian.Uint32(data[8:])
	decoded := binary.LittleEndian.Uint32(data[12:])
	f := &frame{
		incarnation: binary.LittleEndian.Uint32(data[incarnationStart:]),
		size:        uint64(len(data)),
		attachments: data[headerLength+int(stored):],
	}
	copy(f.logID[:], data[24:])
	copy(f.digest[:], data[digestOffset:])
	var err error
	if f.message, err = decodeMessage(data[6], data[headerLength:headerLength+int(stored)], decoded); err != nil {
		return nil, err
	}
	return f, checkMessage(f.message, kind)
}

// checkLength is check 1 without the digest.
func checkLength(header []byte, size uint64) error {
	if len(header) < headerLength || string(header[:4]) != "LKLG" {
		return damage("no frame")
	}
	stored := uint64(binary.LittleEndian.Uint32(header[8:]))
	attached := binary.LittleEndian.Uint64(header[16:])
	if rest := size - headerLength; stored > rest || attached != rest-stored {
		return damage("has another length than its header says")
	}
	return nil
}

// checkHeader is the end of check 1 and the checks 2 to 4.
func checkHeader(header, digest []byte, kind byte, incarnation uint32) error {
	if !bytes.Equal(digest, header[digestOffset:headerLength]) {
		return damage("wrong digest")
	}
	if header[4] != formatVersion {
		return newer("format version %d", header[4])
	}
	own := binary.LittleEndian.Uint32(header[incarnationStart:])
	switch {
	case header[7] != 0 || binary.LittleEndian.Uint32(header[44:]) != 0:
		return damage("bytes of the header that must be 0 are not")
	case header[5] != kind:
		return damage("kind %d of frame instead of %d", header[5], kind)
	case binary.LittleEndian.Uint32(header[8:]) > maxMessage || binary.LittleEndian.Uint32(header[12:]) > maxMessage:
		return damage("message too long")
	case binary.LittleEndian.Uint64(header[16:]) > maxAttached:
		return damage("attachments too long")
	case own < 1 || own > maxIncarnation || incarnation != anyIncarnation && own != incarnation:
		return damage("incarnation %d", own)
	}
	if header[6] > codecZstd {
		return newer("codec %d", header[6])
	}
	return nil
}

// readHeader gives the header of the object at a path, unchecked.
func readHeader(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	header := make([]byte, headerLength)
	_, err = io.ReadFull(file, header)
	return header, err
}

// judgeLarge says of an object that this reader does not hold in memory what can be said without doing so.
func judgeLarge(file io.ReadSeeker, size uint64, kind byte, incarnation uint32) error {
	header := make([]byte, headerLength)
	if _, err := io.ReadFull(file, header); err != nil {
		return damage("cannot be read")
	}
	if err := checkLength(header, size); err != nil {
		return err
	}
	hash := sha256.New()
	hash.Write(header[:digestOffset])
	if _, err := io.Copy(hash, file); err != nil {
		return damage("cannot be read")
	}
	if err := checkHeader(header, hash.Sum(nil), kind, incarnation); err != nil {
		return err
	}
	return damage("needs more memory than this reader gives (no rule of the format)")
}

// decodeMessage is check 5.
func decodeMessage(codec byte, stored []byte, decoded uint32) ([]byte, error) {
	if codec == codecNone {
		if uint32(len(stored)) != decoded {
			return nil, damage("stored and decoded length differ")
		}
		return stored, nil
	}
	return unzstd(stored, int64(decoded))
}

// checkMessage is check 6.
func checkMessage(message []byte, kind byte) error {
	return checkWire(frameMessages[kind], message)
}

var decoder = func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxMemory(1<<32))
	if err != nil {
		panic(err)
	}
	return d
}()

// unzstd decodes what must be exactly so many bytes, and never holds more.
func unzstd(source []byte, length int64) ([]byte, error) {
	out, err := decoder.DecodeAll(source, make([]byte, 0, length))
	if err != nil || int64(len(out)) != length {
		return nil, damage("zstd cannot be decoded")
	}
	return out, nil
}
